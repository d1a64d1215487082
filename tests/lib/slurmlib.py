"""A Slurm cluster of two nodes (nodeslib): munge and slurmd on both, slurmctld on the first; the examples of dist/ as its configuration."""
import contextlib
import os
import shutil
from pathlib import Path

import pytest

from helpers import PUBLIC, USER, wait_for
from nodeslib import two_nodes
from ocilib import OCI

EXAMPLES = Path(__file__).parents[2] / "dist" / "cluster" / "slurm"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
CONFIG = """ClusterName=test
SlurmctldHost=n1
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket
SlurmUser=root
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmdLogFile=/run/slurm/slurmd.log
Prolog=/etc/slurm/prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=n1,n2 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """What its user calls."""

    def __init__(self, folder, nodes):
        self.folder, self.nodes = folder, nodes

    def __call__(self, *args, **kwargs):
        ids = ["setpriv", "--reuid", USER.uid, "--regid", USER.uid, "--clear-groups", "env", "-i", "-C", "/tmp", f"PATH={os.environ['PATH']}"]
        return self.nodes[0](*ids, *args, **kwargs)

    def ready(self):
        told = self("sinfo", "-h", "-o", "%D %t").stdout.split()
        return told == ["2", "idle"]


def _prepare(node):
    shutil.copytree(EXAMPLES, node.etc / "slurm", dirs_exist_ok=True)
    (node.etc / "slurm/slurm.conf").write_text(CONFIG)
    (node.etc / "slurm/prolog").chmod(0o755)
    for name in ("slurm/oci.conf", "slurm/prolog"):
        file = node.etc / name
        file.write_text(file.read_text().replace("/usr/bin/brig-oci", str(OCI)))
    for name, line in (("passwd", f"tester:x:{USER.uid}:{USER.uid}::/tmp:/bin/sh\n"), ("group", f"tester:x:{USER.uid}:\n")):
        with (node.etc / name).open("a") as file:
            file.write(line)


def _start(node, key):
    made = node("mkdir", "-p", "-m", "755", "/run/munge", "/run/slurm/state", "/run/slurm/spool")
    assert made.returncode == 0, made
    # The key is read by root alone, who munged is here.
    node.daemon("munged", "--foreground", "--force", "--key-file", key, "--socket", "/run/munge/socket", "--pid-file", "/run/munge/pid",
                "--seed-file", "/run/munge/seed", "--log-file", "/run/munge/log")
    wait_for(lambda: node("munge", "--socket", "/run/munge/socket", "--no-input").returncode == 0, what="munge")


@contextlib.contextmanager
def cluster(folder):
    if not all(map(shutil.which, PROGRAMS)):
        pytest.skip("Slurm is not installed")
    with two_nodes(folder, _prepare) as nodes:
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for node in nodes:
            _start(node, key)
        nodes[0].daemon("slurmctld", "-D")
        for node in nodes:
            node.daemon("slurmd", "-D")
        slurm = Slurm(PUBLIC, nodes)
        wait_for(slurm.ready, 120, "Slurm's nodes")
        yield slurm

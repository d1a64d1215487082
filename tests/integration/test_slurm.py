"""Slurm, two nodes: jobs whose steps run in brig, by Slurm's own containers (oci.conf) and by `srun brig run`. In the full form alone: it needs Slurm."""
import copy
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import slurmlib
from form import FULL
from helpers import IS_ROOT, PUBLIC, USER, WATCHED, all_pids, wait_for
from ocilib import BUSYBOX, CONFIG, make_root

pytestmark = pytest.mark.skipif(not FULL or not IS_ROOT or not BUSYBOX, reason="daemons of root's, with a root from busybox: BRIG_TEST_FULL=1")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurmlib.cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def bundle():
    """Where the job's user can reach it: the folders of pytest are root's."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir=PUBLIC))
    folder.chmod(0o755)
    make_root(folder / "rootfs")
    config = copy.deepcopy(CONFIG)
    config["process"]["capabilities"] = {}
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run(["chown", "-R", f"{USER.uid}:{USER.uid}", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def state_folders(slurm):
    """What is left of containers on the nodes."""
    return [told.stdout for node in slurm.nodes if (told := node("sh", "-c", "find /run/brig-slurm -mindepth 2 2>/dev/null")).stdout.strip()]


def test_slurm_container_on_both_nodes(slurm, bundle):
    told = slurm("srun", "-N2", "-n2", "--label", "--container", bundle, "sh", "-c", "id -u; grep NoNewPrivs /proc/self/status; exit 3")
    assert told.returncode == 3 and sorted(told.stdout.splitlines()) == ["0: 0", "0: NoNewPrivs:\t1", "1: 0", "1: NoNewPrivs:\t1"], told
    assert "n1: task" in told.stderr and "n2: task" in told.stderr, told
    wait_for(lambda: state_folders(slurm) == [])
    # control: without the container it is the node
    told = slurm("srun", "-N2", "-n2", "sh", "-c", "hostname; grep NoNewPrivs /proc/self/status")
    assert sorted(told.stdout.split()) == ["0", "0", "NoNewPrivs:", "NoNewPrivs:", "n1", "n2"], told


def test_slurm_standard_streams(slurm, bundle):
    told = slurm("srun", "--container", bundle, "cat", input="through\n")
    assert (told.returncode, told.stdout, told.stderr) == (0, "through\n", ""), told


def test_slurm_array_in_containers(slurm, bundle):
    """Some at a time on one root: each makes the same places for its mounts in it."""
    script = bundle / "job"
    script.write_text("#!/bin/sh\necho $SLURM_ARRAY_TASK_ID\ngrep NoNewPrivs /proc/self/status\n")
    script.chmod(0o755)
    told = slurm("sbatch", "--wait", "--array", "1-8", "--container", bundle, "--output", f"{bundle}/out-%a-%N", script)
    outputs = {file.name: file.read_text() for file in bundle.glob("out-*")}
    assert told.returncode == 0, (told, outputs)
    assert {name.split("-")[1]: text for name, text in outputs.items()} == {str(i): f"{i}\nNoNewPrivs:\t1\n" for i in range(1, 9)}
    assert {name.split("-")[2] for name in outputs} == {"n1", "n2"}
    wait_for(lambda: state_folders(slurm) == [])


def processes_with(text):
    found = []
    for pid in all_pids():
        try:
            if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("way", ["container", "run"])
def test_slurm_cancelled_job_leaves_nothing(slurm, bundle, way):
    mark = f"{os.getpid()}{way == 'run':d}7777"
    script = bundle / "job"
    sleep = f"trap '' TERM INT HUP; sleep {mark}"
    script.write_text(f"#!/bin/sh\n{sleep}\n" if way == "container" else f"#!/bin/sh\n{PUBLIC}/brig run --quiet {' '.join(WATCHED)} -- sh -c \"{sleep}\"\n")
    script.chmod(0o755)
    told = slurm("sbatch", "--output", f"{bundle}/out", *(["--container", bundle] if way == "container" else []), script)
    job = told.stdout.split()[-1]
    wait_for(lambda: processes_with(f"sleep\0{mark}\0"))
    assert slurm("scancel", job).returncode == 0
    wait_for(lambda: not processes_with(f"sleep\0{mark}\0"), 120)
    wait_for(lambda: state_folders(slurm) == [] and slurm.ready(), 120)


def test_slurm_user_is_told_why_it_is_refused(slurm, bundle):
    config = json.loads((bundle / "config.json").read_text())
    for change, why in ((lambda c: c["process"].update(capabilities={"bounding": ["CAP_SYS_ADMIN"]}), "CAP_SYS_ADMIN"),
                        (lambda c: c["linux"].update(namespaces=[{"type": "mount"}]), "has no pid"),
                        (lambda c: c["mounts"].append({"destination": "/host", "type": "bind", "source": "/", "options": ["rbind"]}), "mount of /"),
                        (lambda c: c["mounts"].append({"destination": "/m", "type": "bind", "source": "/run/munge/socket", "options": ["bind"]}), "a socket of the host")):
        changed = copy.deepcopy(config)
        change(changed)
        (bundle / "config.json").write_text(json.dumps(changed))
        told = slurm("srun", "--container", bundle, "echo", "RAN")
        assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr and "hint:" in told.stderr, told
    wait_for(lambda: state_folders(slurm) == [])


def test_slurm_steps_that_call_brig_run(slurm):
    """No bundle and no configuration of the node's: the program alone."""
    told = slurm("srun", "-N2", "-n2", PUBLIC / "brig", "run", "--quiet", *WATCHED, "--", "sh", "-c", "grep NoNewPrivs /proc/self/status; ls /run/munge; exit 5")
    assert told.returncode == 5 and told.stdout == "NoNewPrivs:\t1\n" * 2, told
    assert told.stderr.count("No such file") == 2, told
    # control: munge's socket is there for what runs outside
    assert "socket" in slurm("srun", "ls", "/run/munge").stdout

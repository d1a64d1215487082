"""The lab's own certificate authority and the certificates, good and bad, of its servers."""

import pathlib
import shutil
import subprocess

NAMES = ["lab.test", "*.lab.test", "*.deep.lab.test", "evil.test", "*.evil.test", "lab.test.evil.test",
         "api.lab.test.evil.test"]
CONFIG = """[ca]
default_ca = lab
[lab]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}/issued
default_md = sha256
policy = any
copy_extensions = none
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = none
prompt = no
[none]
commonName = lab
"""


class Authority:
    """One self-signed authority in a folder."""

    def __init__(self, folder, name="brig test lab"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.pem, self.key = self.folder / "ca.pem", self.folder / "ca.key"
        (self.folder / "issued").mkdir()
        (self.folder / "index").write_text("")
        (self.folder / "serial").write_text("1000\n")
        self.config = self.folder / "config"
        self.config.write_text(CONFIG.format(folder=self.folder))
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                 "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.pem, "-addext",
                 "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def issue(self, name, names, start=None, end=None):
        """(certificate with chain, key) for these names and addresses."""
        base = self.folder / name
        alternatives = ",".join(("IP:" if n[0].isdigit() or ":" in n else "DNS:") + n for n in names)
        base.with_suffix(".ext").write_text(f"subjectAltName={alternatives}\nbasicConstraints=CA:FALSE\n"
                                            "extendedKeyUsage=serverAuth\n")
        key, request, out = base.with_suffix(".key"), base.with_suffix(".csr"), base.with_suffix(".pem")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", key, "-out", request)
        when = ["-startdate", start or "20200101000000Z", "-enddate", end or "20450101000000Z"]
        _openssl("ca", "-batch", "-notext", "-config", self.config, "-cert", self.pem, "-keyfile", self.key,
                 "-in", request, "-out", out, "-extfile", base.with_suffix(".ext"), *when)
        return out, key


def self_signed(folder, name):
    out, key = pathlib.Path(folder) / "self.pem", pathlib.Path(folder) / "self.key"
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
             "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", out)
    return out, key


def trust_folder(folder, pem):
    """What /etc/ssl/certs would be if this authority were the only one in the world."""
    folder = pathlib.Path(folder)
    (folder / "java").mkdir(parents=True)
    shutil.copy(pem, folder / "ca-certificates.crt")
    shutil.copy(pem, folder / "lab.pem")
    name = subprocess.run(["openssl", "x509", "-in", pem, "-noout", "-hash"], check=True, capture_output=True, text=True)
    (folder / f"{name.stdout.strip()}.0").symlink_to("lab.pem")
    if shutil.which("keytool"):
        subprocess.run(["keytool", "-importcert", "-storetype", "JKS", "-noprompt", "-alias", "lab", "-storepass", "changeit", "-file", pem,
                        "-keystore", folder / "java" / "cacerts"], check=True, capture_output=True)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _openssl(*args):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {args[0]}: {done.stderr}"

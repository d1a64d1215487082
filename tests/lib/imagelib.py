"""Images for tests, made here from the host's busybox: layers, configs, layouts and archives, honest or not."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from helpers import PUBLIC

ARCH = {"aarch64": "arm64", "x86_64": "amd64"}[os.uname().machine]
OCI = "application/vnd.oci.image."
BUSYBOX = Path("/bin/busybox")
APPLETS = ["sh", "ls", "id", "env", "cat", "pwd", "echo", "touch", "rm", "stat", "find", "wc", "sleep", "mkdir", "readlink", "test", "true"]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=None, kind=None, link="", mode=0o755, **more):
    """One entry of a layer: a file where there is data, a folder where there is none, or a kind of tarfile's."""
    info = tarfile.TarInfo(name)
    info.type = kind or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.mode, info.linkname, info.size = mode, link, len(data) if data else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def symlink(name, target):
    return entry(name, kind=tarfile.SYMTYPE, link=target)


def hardlink(name, target):
    return entry(name, kind=tarfile.LNKTYPE, link=target)


def layer(*entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def base():
    """busybox with a few of its names, and two users."""
    return layer(entry("bin"), entry("bin/busybox", BUSYBOX.read_bytes()), *[symlink(f"bin/{name}", "busybox") for name in APPLETS],
                 entry("etc"), entry("etc/passwd", b"root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/app:/bin/sh\n", mode=0o644), entry("app"))


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


# Without a time in it: the same image has the same digests whenever it is packed.
PACKERS = {"": lambda data: data, "+gzip": lambda data: gzip.compress(data, 1, mtime=0), "+zstd": zstd}


class Image:
    """One image: change what shall be wrong, then write it."""

    def __init__(self, *layers, packer="", **config):
        self.layers = list(layers) or [base()]
        self.packer = packer
        self.config = {"architecture": ARCH, "os": "linux", "config": {"Env": ["PATH=/bin"], **config},
                       "rootfs": {"type": "layers", "diff_ids": [digest(each) for each in self.layers]}}
        self.name = None

    def documents(self):
        """{digest: bytes} of all blobs, and the manifest's descriptor."""
        blobs = {}

        def put(data, kind, **more):
            blobs[digest(data)] = data
            return {"mediaType": OCI + kind, "digest": digest(data), "size": len(data), **more}

        config = put(json.dumps(self.config).encode(), "config.v1+json")
        layers = [put(PACKERS[self.packer](each), "layer.v1.tar" + self.packer) for each in self.layers]
        manifest = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": config, "layers": layers}
        return blobs, put(json.dumps(manifest).encode(), "manifest.v1+json")

    def layout(self, folder, change=lambda documents: None):
        """An OCI layout. `change` gets (folder, blobs, descriptor) before anything is written."""
        folder = Path(folder)
        blobs, at = self.documents()
        if self.name:
            at["annotations"] = {"org.opencontainers.image.ref.name": self.name}
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        index = {"schemaVersion": 2, "manifests": [at]}
        change({"blobs": blobs, "index": index, "manifest": at})
        for name, data in blobs.items():
            (folder / "blobs" / "sha256" / name.removeprefix("sha256:")).write_bytes(data)
        (folder / "index.json").write_text(json.dumps(index))
        folder.chmod(0o755)
        return folder

    def docker_archive(self, path):
        """As docker save writes it."""
        config = json.dumps(self.config).encode()
        name = hashlib.sha256(config).hexdigest() + ".json"
        files = [entry(name, config, mode=0o644)]
        for at, data in enumerate(self.layers):
            files += [entry(f"{at}"), entry(f"{at}/layer.tar", data, mode=0o644)]
        told = [{"Config": name, "RepoTags": [self.name] if self.name else None, "Layers": [f"{at}/layer.tar" for at in range(len(self.layers))]}]
        files.append(entry("manifest.json", json.dumps(told).encode(), mode=0o644))
        Path(path).write_bytes(layer(*files))
        return path


def pack(folder, path):
    """An archive of a layout."""
    with tarfile.open(path, "w") as tar:
        for each in sorted(Path(folder).iterdir()):
            tar.add(each, each.name)
    return path


class Store:
    """The images of one caller, in a state folder of its own."""

    def __init__(self, caller):
        self.caller = caller
        self.home = Path(tempfile.mkdtemp(prefix="test-brig-images-"))
        self.home.chmod(0o755)
        self.work = self.home / "work"
        self.work.mkdir()
        self.state = self.home / "state"
        self.state.mkdir(mode=0o700)
        if caller.uid != os.geteuid():
            os.chown(self.state, caller.uid, caller.uid)
        self.env = {**os.environ, "XDG_STATE_HOME": str(self.state), "HOME": str(self.state)}
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def images(self):
        return self.state / "brig" / "images"

    def new(self):
        self.count += 1
        return self.work / str(self.count)

    def command(self, *words):
        return self.caller.outside(str(PUBLIC / "brig"), "image", *map(str, words))

    def image(self, *words, **kwargs):
        kwargs.setdefault("timeout", 300)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(*words), capture_output=True, env=self.env, cwd="/", **kwargs)

    def load(self, image, name="test/box", *options, change=lambda documents: None):
        """The image through a layout; what was told."""
        told = self.image("load", *options, image.layout(self.new(), change), name)
        return told

    def loaded(self, *args, **kwargs):
        told = self.load(*args, **kwargs)
        assert told.returncode == 0, told
        return told

    def json(self, *words):
        told = self.image(*words, "--json")
        assert told.stdout, told
        return json.loads(told.stdout)

    def run(self, *words, **kwargs):
        return self.caller.run("--quiet", *words, env=self.env, **kwargs)

    def run_json(self, *words):
        return self.caller.json(*words, env=self.env)

    def verify(self):
        told = self.image("verify")
        assert told.returncode == 0, told

    def refused(self, told, *words):
        """It was, with these words, and nothing of it is left."""
        text = told.stderr.decode()
        assert told.returncode == 125 and all(word in text for word in words), told
        self.clean()

    def clean(self):
        """Nothing is in the making, and all that is there is good."""
        assert list((self.images / "tmp").iterdir()) == []
        self.verify()

    def root(self, name="test/box:latest"):
        """The folder with the files of the only image."""
        roots = list((self.images / "roots").iterdir())
        assert len(roots) == 1, roots
        return roots[0] / "tree"

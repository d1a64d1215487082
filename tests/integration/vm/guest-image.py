"""An image with a static busybox and a word in /etc/who, as `docker save` writes one: guest-image.py FILE."""
import hashlib
import io
import json
import os
import sys
import tarfile


def tar_of(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            tar.addfile(entry, None if not isinstance(content, bytes) else io.BytesIO(content))
    return data.getvalue()


layer = tar_of({"bin": None, "bin/busybox": open("/usr/bin/busybox", "rb").read(), "etc": None, "etc/who": b"the image\n", "tmp": None,
                **{f"bin/{name}": "busybox" for name in ("sh", "cat", "rm", "mkdir", "mv", "yes", "head")}})
config = json.dumps({"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux", "config": {"Env": ["PATH=/bin", "WHO=the image's"], "WorkingDir": "/"},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
manifest = json.dumps([{"Config": "config.json", "RepoTags": ["tiny:1"], "Layers": ["layer.tar"]}]).encode()
with open(sys.argv[1], "wb") as out:
    out.write(tar_of({"config.json": config, "layer.tar": layer, "manifest.json": manifest}))

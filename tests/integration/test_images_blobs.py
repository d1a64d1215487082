"""A layer is of the blob that it came out of, whatever brig-unpack says of it (IM-21); and stores of before that."""
import gzip
import hashlib
import json
import os
import shutil
import subprocess

import pytest

from helpers import PUBLIC
from imagelib import OCI, PACKERS, Image, base, digest, entry, layer

pytestmark = pytest.mark.skipif(not os.path.exists("/bin/busybox"), reason="images are made from busybox-static")


# What a blob could make of brig-unpack: it leaves files of its own, and says that they are another layer.
FALSE_UNPACKER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void)
{
    mkdir("etc", 0755);
    int fd = open("etc/shared", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (write(fd, "evil", 4) != 4)
        return 1;
    printf("{\"diff_id\":\"%s\",\"bytes\":4,\"entries\":2,\"left_out\":0}\n", LIE);
    return 0;
}
"""


class Taken:
    """The store's commands by a brig whose brig-unpack says that each layer is `lie`."""

    def __init__(self, store, lie):
        self.store, self.folder = store, store.work / "taken"
        self.folder.mkdir()
        for each in PUBLIC.iterdir():
            if each.is_file() and each.name.startswith("brig") and each.name != "brig-unpack":
                shutil.copy2(each, self.folder / each.name)
        subprocess.run(["cc", "-O1", "-w", "-static", f'-DLIE="{lie}"', "-x", "c", "-o", self.folder / "brig-unpack", "-"], input=FALSE_UNPACKER, text=True, check=True,
                       timeout=120)
        self.folder.chmod(0o755)

    def load(self, image, name):
        words = [str(self.folder / "brig"), "image", "load", str(image.layout(self.store.new())), name]
        return subprocess.run(self.store.caller.outside(*words), capture_output=True, env=self.store.env, cwd="/", stdin=subprocess.DEVNULL, timeout=300)


@pytest.mark.parametrize("packer", ["", "+gzip"])
def test_I17_an_unpacker_that_was_taken_over_spoils_the_layer_of_its_own_blob_alone(one, packer):
    """It says that what it left is the layer of another image, which is loaded later."""
    shared = layer(entry("etc/shared", b"honest"))
    mine = layer(entry("takes-over", b"1"))
    attack = Image(mine, packer=packer)
    attack.config["rootfs"]["diff_ids"] = [digest(shared)]
    taken = Taken(one, digest(shared))
    told = taken.load(attack, "stranger/image")
    assert told.returncode == 0, told
    root = one.root()
    assert (root / "etc/shared").read_text() == "evil", "the control: it can do with its own what it likes"
    victim = Image(shared, packer=packer)
    one.loaded(victim, "well/known")
    assert one.image("load", victim.docker_archive(one.work / "d.tar"), "well/archive").returncode == 0
    found = sorted((each / "tree/etc/shared").read_text() for each in (one.images / "roots").iterdir())
    assert found.count("evil") == 1 and set(found) == {"evil", "honest"}, found
    # Above another layer, and as what a build of ours makes.
    one.loaded(Image(base(), shared, packer=packer), "well/above")
    assert one.run("--image", "well/above", "--", "cat", "/etc/shared").stdout == "honest"
    one.verify()
    # Who takes the stranger's image has the stranger's files.
    assert one.json("show", "stranger/image")["files_digest"] != one.json("show", "well/known")["files_digest"]


def test_I17_the_same_blob_with_another_word_of_its_config(one):
    """What brig-unpack once said of a blob is not believed against the config of another image; and nothing that is there is taken for it."""
    mine, other = layer(entry("a", b"1")), layer(entry("a", b"2"))
    one.loaded(Image(base(), mine))
    liar = Image(base(), mine)
    liar.config["rootfs"]["diff_ids"][1] = digest(other)
    one.refused(one.load(liar, "test/liar"), "layer 2 of 2", "not the layer that the config names")
    one.loaded(Image(base(), other), "test/other")
    assert one.run("--image", "test/other", "--", "cat", "/a").stdout == "2"


def test_I17_how_a_blob_is_read_follows_from_its_bytes(one):
    """One blob under three media types is one layer; one layer packed in three ways is three blobs."""
    data = layer(entry("a", b"1" * 5000))
    for packer in PACKERS:
        image = Image(base(), data, packer=packer)
        for at, told in enumerate(PACKERS):
            def lie(documents, told=told):
                manifest = json.loads(documents["blobs"].pop(documents["manifest"]["digest"]))
                manifest["layers"][1]["mediaType"] = OCI + "layer.v1.tar" + told
                text = json.dumps(manifest).encode()
                documents["blobs"][digest(text)] = text
                documents["manifest"].update(digest=digest(text), size=len(text))

            one.loaded(image, f"test/x{packer.removeprefix('+')}-{at}", change=lie)
            assert len({each["manifest"] for each in one.json("list")["images"]}) == list(PACKERS).index(packer) * 3 + at + 1, "control: they are different images"
    kept = {each.name for each in (one.images / "unpacked").iterdir()}
    wanted = {digest(pack(each)).removeprefix("sha256:") for pack in PACKERS.values() for each in (base(), data)}
    assert kept == wanted and len(kept) == 6
    assert len({each["files_digest"] for each in (one.json("show", each["name"]) for each in one.json("list")["images"])}) == 1
    one.verify()


@pytest.mark.parametrize("packer", ["+gzip", "+zstd"])
def test_I17_a_blob_that_is_packed_is_never_a_plain_layer(one, packer):
    """Its config says that it is its own layer, so that nobody else would have to hash it."""
    image = Image(base(), layer(entry("a", b"1")), packer=packer)
    packed = PACKERS[packer](image.layers[1])
    image.config["rootfs"]["diff_ids"][1] = digest(packed)
    one.refused(one.load(image), "layer 2 of 2", "not the layer that the config names")
    one.loaded(Image(base(), image.layers[1], packer=packer))


def docker_archive(image, path, packer):
    """As `docker save` writes it, but packed, as some builders do."""
    config = json.dumps(image.config).encode()
    files = [entry("config.json", config, mode=0o644)]
    told = [{"Config": "config.json", "RepoTags": None, "Layers": [f"{at}.tar" for at in range(len(image.layers))]}]
    files += [entry(f"{at}.tar", PACKERS[packer](data), mode=0o644) for at, data in enumerate(image.layers)]
    path.write_bytes(layer(*files, entry("manifest.json", json.dumps(told).encode(), mode=0o644)))
    return path


def test_layers_of_an_archive_of_dockers_that_are_packed(one):
    image = Image(base(), layer(entry("a", b"yes")))
    path = one.work / "d.tar"
    for packer in PACKERS:
        assert one.image("load", docker_archive(image, path, packer), "test/" + (packer.removeprefix("+") or "plain")).returncode == 0
    shown = {name: one.json("show", f"test/{name}") for name in ("plain", "gzip", "zstd")}
    assert shown["plain"]["blobs"] == shown["plain"]["layers"] == shown["gzip"]["layers"] == shown["zstd"]["layers"] == [digest(each) for each in image.layers]
    assert shown["gzip"]["blobs"] == [digest(PACKERS["+gzip"](each)) for each in image.layers]
    assert len({each["files_digest"] for each in shown.values()}) == 1
    # The same blobs out of a layout are the same layers.
    told = one.load(Image(*image.layers, packer="+gzip"), "test/layout")
    assert told.returncode == 0 and b"its files were there" in told.stdout, told
    # A layer whose bytes are not what the config says.
    image.config["rootfs"]["diff_ids"][1] = digest(b"another")
    for packer, said in (("", "another digest"), ("+gzip", "not the layer that the config names")):
        one.refused(one.image("load", docker_archive(image, path, packer), "test/liar"), said)


# ---- stores of before ----


def chain_of(diff_ids):
    """What a root was called before."""
    chain = diff_ids[0]
    for each in diff_ids[1:]:
        chain = "sha256:" + hashlib.sha256(f"{chain} {each}".encode()).hexdigest()
    return chain.removeprefix("sha256:")


def test_what_cannot_be_looked_at_is_not_removed(one):
    """A root that cannot be seen at the moment is not one from before, whose layers are of no use."""
    one.loaded(Image(base(), layer(entry("a", b"1"))))
    there = sorted(each.name for folder in ("roots", "unpacked") for each in (one.images / folder).iterdir())
    broken = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(one.images / "roots"), "-e", "trace=newfstatat", "-e", "inject=newfstatat:error=EIO"]
    told = subprocess.run(one.caller.outside(*broken, str(PUBLIC / "brig"), "image", "gc"), capture_output=True, env=one.env, cwd="/", stdin=subprocess.DEVNULL,
                          timeout=60)
    assert sorted(each.name for folder in ("roots", "unpacked") for each in (one.images / folder).iterdir()) == there, told
    assert told.returncode == 125 and b"nothing was removed" in told.stderr, told
    assert one.json("gc")["layers"] == 0
    assert one.run("--image", "test/box", "--", "cat", "/a").stdout == "1"


def make_old(store, image):
    """As an earlier brig would have left it: roots and layers by what brig-unpack said that the layers are."""
    old = store.images / "layers"
    old.mkdir(mode=0o700)
    for data in image.layers:
        blob = store.images / "unpacked" / digest(PACKERS[image.packer](data)).removeprefix("sha256:")
        facts = json.loads((blob / "facts").read_text())
        (blob / "facts").write_text(json.dumps({key: value for key, value in facts.items() if key not in ("diff_id", "packed")}))
        blob.rename(old / digest(data).removeprefix("sha256:"))
    root = store.root().parent
    root.rename(root.with_name(chain_of(image.config["rootfs"]["diff_ids"])))
    for each in (old, *old.iterdir()):
        shutil.chown(each, store.caller.uid, store.caller.uid) if os.geteuid() == 0 else None
    return old


def test_I17_a_root_of_before_is_never_one_of_blobs(one):
    """Then brig-unpack could choose what a root is called, if it says which layer it has unpacked: also what one is called now."""
    victim = Image(base(), layer(entry("etc/shared", b"honest")))
    one.loaded(Image(base(), layer(entry("etc/shared", b"evil"))), "stranger/image")
    digests = [digest(data) for data in victim.layers]
    text = "brig root by blobs\n\0" + "".join(f"{each}\0{each}\0" for each in digests)
    one.root().parent.rename(one.images / "roots" / hashlib.sha256(text.encode()).hexdigest())
    one.loaded(victim)
    assert one.run("--image", "test/box", "--", "cat", "/etc/shared").stdout == "honest"


@pytest.mark.parametrize("packer", ["", "+gzip"])
def test_a_store_of_before_is_read_and_nothing_new_is_made_of_it(one, packer):
    image = Image(base(), layer(entry("etc/shared", b"honest")), packer=packer)
    one.loaded(image)
    old = make_old(one, image)
    before = one.root()
    # It is used as before.
    assert one.run("--image", "test/box", "--", "cat", "/etc/shared").stdout == "honest"
    one.verify()
    shown = one.json("list")["images"][0]
    assert shown["usable"] and shown["own_bytes"] == shown["bytes"] and shown["shared_bytes"] == 0
    assert one.json("show", "test/box")["own_bytes"] == shown["bytes"]
    # Nothing is made of it: that would be called what nobody saw that it is.
    (one.work / "Dockerfile").write_text("FROM test/box\nENV A=b\n")
    for words in (["build", "-t", "test/made", one.work], ["push", "test/box", "127.0.0.1:1/x"]):
        told = one.image(*words)
        assert told.returncode == 125 and b"by an earlier brig" in told.stderr and b"again" in told.stderr, told
    told = one.run("--image", "test/box", "--commit", "test/made", "--disk", "100M", "-m", "500M", "--", "true")
    assert told.returncode == 125 and "by an earlier brig" in told.stderr, told
    # Its layers are what brig-unpack said that they are: none is used, and they go.
    shared = old / digest(image.layers[1]).removeprefix("sha256:") / "tree/etc/shared"
    shared.write_text("broken")
    assert (before / "etc/shared").read_text() == "broken", "the control: the file has both names"
    assert one.json("gc")["layers"] == 2 and not old.exists()
    one.loaded(image, "test/again")
    assert one.run("--image", "test/again", "--", "cat", "/etc/shared").stdout == "honest"
    assert one.run("--image", "test/box", "--", "cat", "/etc/shared").stdout == "honest", "the same image has its new files"
    assert one.json("gc")["roots"] == 1 and not before.exists()
    one.clean()
    assert one.image("build", "-t", "test/made", one.work).returncode == 0

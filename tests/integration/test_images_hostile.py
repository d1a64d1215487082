"""Hostile images: rows I-01 to I-07, I-09 to I-11 and I-16 (I-08: test_images_pull.py; I-12 to I-15: test_images_build.py). Each is loaded as root and as an ordinary user where it makes a difference.

The controls unpack the same layers with Python's tarfile, which follows what they say: there the attack works.
"""
import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from imagelib import ARCH, OCI, Image, base, digest, entry, hardlink, layer, symlink, zstd

pytestmark = pytest.mark.skipif(not os.path.exists("/bin/busybox"), reason="images are made from busybox-static")


@pytest.fixture
def flag(store):
    """A file of the host that everybody may write, beside the store."""
    path = store.home / "flag"
    path.write_text("untouched")
    path.chmod(0o666)
    store.home.chmod(0o777)
    return path


def unpack_plainly(folder, *layers):
    """The control: what a program does that believes what it reads."""
    folder.mkdir()
    for data in layers:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for each in tar.getmembers():
                name, _, leaf = each.name.rpartition("/")
                path = f"{folder}/{each.name}"
                if leaf.startswith(".wh."):
                    os.unlink(f"{folder}/{name}/{leaf.removeprefix('.wh.')}")
                elif each.issym():
                    os.symlink(each.linkname, path)
                elif each.islnk():
                    os.link(f"{folder}/{each.linkname}" if not each.linkname.startswith("/") else each.linkname, path)
                elif each.isdir():
                    os.makedirs(path, exist_ok=True)
                else:
                    with open(path, "wb") as out:
                        out.write(tar.extractfile(each).read())


def escapes(flag):
    """{name: (layers, what is said or None where the image is good)}; each would write the flag, which lies two folders above `x`."""
    up = "../" * 12 + str(flag).lstrip("/")
    return {
        "climbs": ([layer(entry(up, b"broken"))], "climbs out"),
        "climbs inside": ([layer(entry("a"), entry("a/../" + up, b"broken"))], "climbs out"),
        "absolute": ([layer(entry(str(flag), b"broken"))], "absolute name"),
        "through a link": ([layer(symlink("a", str(flag.parent)), entry(f"a/{flag.name}", b"broken"))], None),
        "through a climbing link": ([layer(symlink("a", "../" * 12 + str(flag.parent).lstrip("/")), entry(f"a/{flag.name}", b"broken"))], None),
        "through a link of a lower layer": ([layer(symlink("a", str(flag.parent))), layer(entry(f"a/{flag.name}", b"broken"))], None),
        "onto a link": ([layer(symlink("a", str(flag))), layer(entry("a", b"broken"))], None),
        "hard link to outside": ([layer(hardlink("a", str(flag)), entry("a", b"broken"))], "absolute name"),
        "hard link that climbs": ([layer(hardlink("a", up), entry("a", b"broken"))], "climbs out"),
        "hard link through a link": ([layer(symlink("d", str(flag.parent)), hardlink("a", f"d/{flag.name}"))], "no file of the image"),
    }


def outside(store):
    """All that is around the store, but not in it: (name, size, time)."""
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in store.home.iterdir() if path != store.state)


@pytest.mark.parametrize("attack", list(escapes(Path("/x/y"))))
def test_I01_names_and_links_out_of_the_tree(store, flag, attack):
    layers, said = escapes(flag)[attack]
    folder = Image(base(), *layers).layout(store.new())
    before = outside(store)
    told = store.image("load", folder, "test/box")
    assert flag.read_text() == "untouched" and outside(store) == before
    if said:
        store.refused(told, said)
        assert store.json("list")["images"] == []
    else:
        assert told.returncode == 0, told
        store.verify()
        assert store.run("--image", "test/box", "--", "echo", "runs").stdout == "runs\n"


def test_I01_control_the_links_lead_out_where_they_are_followed(store, flag):
    for attack in ("through a link", "through a link of a lower layer", "climbs"):
        flag.write_text("untouched")
        layers, _ = escapes(flag)[attack]
        unpack_plainly(store.work / attack.replace(" ", "-"), *layers)
        assert flag.read_text() == "broken", attack


def test_I01_a_link_counts_as_inside_the_image(one):
    """Layers of real images have entries below links: /lib is one of /usr/lib."""
    one.loaded(Image(base(), layer(entry("usr"), entry("usr/lib"), symlink("lib", "usr/lib"), symlink("up", "/../../usr")),
                     layer(entry("lib/found", b"1"), entry("up/lib/too", b"2"))))
    root = one.root()
    assert (root / "usr/lib/found").read_text() == "1" and (root / "usr/lib/too").read_text() == "2" and (root / "lib").is_symlink()
    loop = Image(base(), layer(symlink("a", "b"), symlink("b", "a"), entry("a/x", b"1")))
    told = one.load(loop, "test/loop")
    assert told.returncode == 125 and b"too many links" in told.stderr, told


def whiteouts(flag):
    up = "../" * 12 + str(flag.parent).lstrip("/")
    return {
        "below a link": ([layer(symlink("a", str(flag.parent))), layer(entry(f"a/.wh.{flag.name}", b""))], None),
        "climbs": ([layer(entry(f"{up}/.wh.{flag.name}", b""))], "climbs out"),
        "empty": ([layer(entry(".wh.", b""))], "names no file"),
        "of the folder above": ([layer(entry(".wh...", b""))], "names no file"),
        "of the folder itself": ([layer(entry(".wh..", b""))], "names no file"),
        "opaque below a link": ([layer(symlink("a", str(flag.parent))), layer(entry("a/.wh..wh..opq", b""))], None),
        "opaque root": ([layer(entry(".wh..wh..opq", b""), *[])], None),
    }


@pytest.mark.parametrize("attack", list(whiteouts(Path("/x/y"))))
def test_I02_whiteouts_hide_nothing_elsewhere(store, flag, attack):
    layers, said = whiteouts(flag)[attack]
    folder = Image(base(), *layers).layout(store.new())
    before = outside(store)
    told = store.image("load", folder, "test/box")
    assert flag.read_text() == "untouched" and outside(store) == before
    if said:
        store.refused(told, said)
    else:
        assert told.returncode == 0, told
        store.verify()
        if attack == "opaque root":
            assert os.listdir(store.root()) == []


def test_I02_control_a_whiteout_below_a_link_deletes_where_it_is_followed(store, flag):
    unpack_plainly(store.work / "control", *whiteouts(flag)["below a link"][0])
    assert not flag.exists()


def test_I02_entries_of_the_same_layer_stay(one):
    one.loaded(Image(base(), layer(entry("d"), entry("d/old", b"1")),
                     layer(entry("new", b"2"), entry(".wh.new", b""), entry("d/kept", b"2"), entry("d/.wh..wh..opq", b""), entry(".wh.d", b""))))
    root = one.root()
    assert (root / "new").read_text() == "2" and os.listdir(root / "d") == ["kept"]


def test_I03_special_entries(store):
    special = layer(
        entry("device", kind=tarfile.CHRTYPE, mode=0o666, devmajor=1, devminor=1), entry("disk", kind=tarfile.BLKTYPE, mode=0o666, devmajor=8, devminor=0),
        entry("whiteout", kind=tarfile.CHRTYPE, devmajor=0, devminor=0), entry("fifo", kind=tarfile.FIFOTYPE, mode=0o666),
        entry("setuid", Path("/bin/busybox").read_bytes(), mode=0o6755), entry("setgid", mode=0o2777),
        entry("owned", b"x", uid=2**31, gid=2**31 - 5), entry("ancient", b"x", mtime=-5_000_000_000), entry("future", b"x", mtime=2**60),
        entry("closed", mode=0), entry("closed/secret", b"x", mode=0),
        entry("capable", b"x", pax_headers={"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x00\x00\x00", "SCHILY.xattr.trusted.overlay.opaque": "y",
                                            "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.acl.access": "user::rwx,user:0:rwx,group::---,other::---,mask::rwx"}))
    store.loaded(Image(base(), special))
    root = store.root()
    assert not any((root / name).exists() for name in ("device", "disk", "whiteout", "fifo"))
    assert store.json("show", "test/box")["left_out"] == 4
    for name in ("setuid", "setgid"):
        assert (root / name).stat().st_mode & 0o6000 == 0
    assert {path.lstat().st_uid for path in root.rglob("*")} == {store.caller.uid}
    assert os.listxattr(root / "capable") == []
    assert all(0 <= (root / name).stat().st_mtime < 2**33 for name in ("ancient", "future"))
    told = store.run("--image", "test/box", "--", "sh", "-c", "ls /closed; cat /closed/secret; echo; stat -c %a /setuid /setgid")
    assert told.stdout.split() == ["secret", "x", "755", "777"], told
    # And all of it can be removed by its owner.
    assert store.json("rm", "test/box")["roots"] == 1
    assert list((store.images / "roots").iterdir()) == []


def bombs():
    deep = "/".join(["d"] * 1500)
    sparse = tarfile.TarInfo("sparse")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "giant", "GNU.sparse.realsize": str(2**45)}
    body = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    sparse.size = len(body)
    zeros = layer(entry("zeros", b"\0" * 12_000_000))
    return {
        "gzip": (zeros, "+gzip", ["--max-size", "6M"], "bytes that are left"),
        "zstd": (zeros, "+zstd", ["--max-size", "6M"], "bytes that are left"),
        "behind the end": (layer(entry("a", b"1")) + b"\0" * 12_000_000, "+gzip", ["--max-size", "6M"], "bytes that are left"),
        "entries": (layer(*[entry(f"f{n}", b"") for n in range(700)]), "+gzip", ["--max-entries", "300"], "entries that are left"),
        "the same entry": (layer(*[entry("f", b"") for n in range(700)]), "+gzip", ["--max-entries", "300"], "entries that are left"),
        # Each name brings 200 folders that no entry has.
        "folders without an entry": (layer(*[entry(f"{n}/" + "/".join("d" * 199) + "/f", b"") for n in range(20)]), "+gzip", ["--max-entries", "300"], "entries that are left"),
        # One file of 1 MiB: 1 MiB on the disk, 40 to whoever hashes or copies it.
        "names of one file": (layer(entry("f", b"\0" * 2**20), *[hardlink(f"f{n}", "f") for n in range(40)]), "+gzip", ["--max-size", "20M"], "bytes that are left"),
        "depth": (layer(entry(deep, b"1")), "", [], "lies too deep"),
        "sparse": (layer((sparse, body)), "", [], "bytes that are left"),
    }


@pytest.mark.parametrize("bomb", ["gzip", "zstd", "behind the end", "entries", "the same entry", "folders without an entry", "names of one file", "depth", "sparse"])
def test_I04_bombs(one, bomb):
    one.loaded(Image(), "good/one")
    data, packer, options, said = bombs()[bomb]
    told = one.load(Image(base(), data, packer=packer), "test/box", *options)
    one.refused(told, said)
    assert [each["name"] for each in one.json("list")["images"]] == ["good/one:latest"]
    if options:  # control: it is the limit that stops it
        wide = ["--max-size", "60M"] if "size" in options[0] else ["--max-entries", "20k"]
        one.loaded(Image(base(), data, packer=packer), "test/box", *wide)


def test_I04_a_window_that_asks_for_memory(one):
    data = layer(entry("a", b"x" * 100_000))
    packed = subprocess.run(["zstd", "-q", "-c", "--ultra", "-22", "--long=31"], input=data, capture_output=True, check=True).stdout
    header = bytearray(packed)
    assert header[:4] == b"\x28\xb5\x2f\xfd"
    # A frame of its own: no single segment, and a window of 2 to the 41st.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 31 << 3]) + b"\x01\x00\x00"

    def change(documents):
        old = digest(zstd(data))
        manifest = json.loads(documents["blobs"].pop(documents["manifest"]["digest"]))
        for each in manifest["layers"]:
            if each["digest"] == old:
                each.update(digest=digest(frame), size=len(frame))
        documents["blobs"][digest(frame)] = frame
        text = json.dumps(manifest).encode()
        documents["blobs"][digest(text)] = text
        documents["manifest"].update(digest=digest(text), size=len(text))

    one.refused(one.load(Image(data, packer="+zstd"), change=change), "layer 1 of 1")


def test_I04_too_many_layers(one):
    image = Image(*[layer(entry(f"l{n}", b"")) for n in range(140)])
    one.refused(one.load(image), "more than 127 layers")


def replace_layer(data):
    """The blob of the last layer has this content, under the name that the manifest has for it."""
    def change(documents):
        manifest = json.loads(documents["blobs"][documents["manifest"]["digest"]])
        documents["blobs"][manifest["layers"][-1]["digest"]] = data
    return change


def test_I05_wrong_size_wrong_digest_cut_stream(one):
    upper = layer(entry("upper", b"x" * 20000))
    image = Image(base(), upper)
    one.refused(one.load(image, change=replace_layer(upper + b"more")), "another size")
    one.refused(one.load(image, change=replace_layer(upper[:-1] + b"!")), "another digest")
    for tenth in range(10):
        one.refused(one.load(image, change=replace_layer(upper[: len(upper) * tenth // 10])), "another size")
    wrong = Image(base(), upper)
    wrong.config["rootfs"]["diff_ids"][1] = digest(b"something else")
    one.refused(one.load(wrong), "not the layer that the config names")
    fewer = Image(base(), upper)
    fewer.config["rootfs"]["diff_ids"].pop()
    one.refused(one.load(fewer), "other layers than the manifest")
    one.loaded(image)
    one.clean()


def test_I05_a_cut_archive(one):
    image = Image(base(), layer(entry("upper", b"x" * 20000)), packer="+gzip")
    image.name = "test/box:v1"
    data = gzip.compress(Path(image.docker_archive(one.work / "whole.tar")).read_bytes())
    for tenth in range(1, 10):
        told = one.image("load", "-", input=data[: len(data) * tenth // 10])
        assert told.returncode == 125, (tenth, told)
        one.clean()
    assert one.image("load", "-", input=data).returncode == 0


BAD_DIGESTS = ["", "sha256:", "sha256:" + "a" * 63, "sha256:" + "a" * 65, "sha256:" + "A" * 64, "sha512:" + "a" * 128, "sha256:../../../../etc/passwd",
               "sha256:" + "../" * 21 + "a", "md5:" + "a" * 32, "a" * 64, "sha256:" + "a" * 63 + "/", "sha256:" + "a" * 1_000_000, "sha256:" + "a" * 63 + "\n", None, 5,
               ["sha256:" + "a" * 64]]


@pytest.mark.parametrize("place", ["index", "config", "layer", "diff_id"])
def test_I06_digests_are_not_paths(one, place):
    for bad in BAD_DIGESTS:
        image = Image()
        if place == "diff_id":
            image.config["rootfs"]["diff_ids"][0] = bad

        def change(documents):
            if place == "index":
                documents["index"]["manifests"][0]["digest"] = bad
            elif place in ("config", "layer"):
                manifest = json.loads(documents["blobs"].pop(documents["manifest"]["digest"]))
                (manifest["config"] if place == "config" else manifest["layers"][0])["digest"] = bad
                text = json.dumps(manifest).encode()
                documents["blobs"][digest(text)] = text
                documents["manifest"].update(digest=digest(text), size=len(text))

        told = one.load(image, change=change)
        assert told.returncode == 125 and b"is not a digest" in told.stderr, (bad if not isinstance(bad, str) else bad[:80], told)
    one.clean()


def test_I06_paths_in_an_archive_of_dockers(one):
    secret = one.home / "secret.json"
    secret.write_text("{}")
    for config, layers in (("../../../secret.json", []), (str(secret), []), ("manifest.json/../../x", []), ("config.json", ["../../../secret.json"])):
        files = [entry("config.json", json.dumps(Image().config).encode()), entry("manifest.json", json.dumps([{"Config": config, "Layers": layers or ["l"]}]).encode()),
                 entry("l", base())]
        path = one.work / "evil.tar"
        path.write_bytes(layer(*files))
        one.refused(one.image("load", path, "test/box"), "of the source")
    path.write_bytes(layer(symlink("config.json", str(secret)), entry("manifest.json", b'[{"Config": "config.json", "Layers": []}]')))
    one.refused(one.image("load", path, "test/box"), "of the source")
    path.write_bytes(layer(symlink("manifest.json", "/dev/zero")))
    one.refused(one.image("load", path, "test/box"), "of the source")


def with_manifest(edit, raw=None):
    def change(documents):
        manifest = json.loads(documents["blobs"].pop(documents["manifest"]["digest"]))
        edit(manifest)
        text = raw(manifest) if raw else json.dumps(manifest).encode()
        documents["blobs"][digest(text)] = text
        documents["manifest"].update(digest=digest(text), size=len(text))
    return change


def test_I07_one_digest_two_meanings(one):
    one.refused(one.load(Image(), change=with_manifest(lambda m: m.update(manifests=[]))), "could be two things")
    one.refused(one.load(Image(), change=with_manifest(lambda m: m.update(mediaType=OCI + "index.v1+json"))), "it says that it is")
    one.refused(one.load(Image(), change=with_manifest(lambda m: m.update(schemaVersion=1))), "schemaVersion")
    one.refused(one.load(Image(), change=with_manifest(lambda m: None, raw=lambda m: json.dumps(m)[:-1].encode() + b', "layers": []}')), "layers")
    one.refused(one.load(Image(), change=lambda d: d["index"].update(layers=[])), "could be two things")
    one.refused(one.load(Image(), change=lambda d: d["index"]["manifests"][0].update(mediaType=OCI + "index.v1+json")), "the index")
    one.refused(one.load(Image(), change=with_manifest(lambda m: m["layers"][0].update(urls=["https://example.org/x"]))), "from elsewhere")
    one.refused(one.load(Image(), change=with_manifest(lambda m: m["layers"][0].update(mediaType="text/html"))), "is not known here")


def test_I07_other_machines_and_endless_indexes(one):
    other = Image()
    other.config["architecture"] = "arm64" if ARCH == "amd64" else "amd64"
    one.refused(one.load(other), "for another machine")
    windows = Image()
    windows.config["os"] = "windows"
    one.refused(one.load(windows), "for another machine")

    def nest(documents):
        at = documents["index"]["manifests"][0]
        for _ in range(6):
            text = json.dumps({"schemaVersion": 2, "manifests": [at]}).encode()
            documents["blobs"][digest(text)] = text
            at = {"mediaType": OCI + "index.v1+json", "digest": digest(text), "size": len(text)}
        documents["index"]["manifests"] = [at]

    one.refused(one.load(Image(), change=nest), "an index in an index")


def test_I07_deep_and_large_documents(one):
    def with_config(text):
        def change(documents):
            manifest = json.loads(documents["blobs"].pop(documents["manifest"]["digest"]))
            manifest["config"].update(digest=digest(text), size=len(text))
            documents["blobs"][digest(text)] = text
            new = json.dumps(manifest).encode()
            documents["blobs"][digest(new)] = new
            documents["manifest"].update(digest=digest(new), size=len(new))
        return change

    one.refused(one.load(Image(), change=with_config(b'{"a":' * 5000 + b"1" + b"}" * 5000)), "the config")
    one.refused(one.load(Image(), change=with_config(b" " * 9_000_000 + b"{}")), "too long")


BAD_NAMES = ["-o", "--help", "-", "dir:/etc", "oci:/tmp/x", "docker-archive:/etc/passwd", "docker://python", "docker-daemon:x:y", "a b", "a\tb", "a\nb",
             "user@host/x", "user:pass@host/x", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "A/b", "a:", "a:-x", "a:.x", "a@", "a@sha256:x", "a@md5:" + "a" * 32,
             "a" * 300, "a:" + "b" * 200, "host:99999/x", "host:/x", "a..b", "a___b", "a.", ".a", "_a", "ä", "a\x7f", "a;b", "$(id)", "a&b", "a:b:c", "", "a:b/c:d:e"]


def test_I09_references_are_no_options_and_no_transports(one):
    one.loaded(Image())
    folder = Image().layout(one.new())
    for name in BAD_NAMES:
        for words in (["show", "--", name], ["rm", "--", name], ["load", "--", folder, name], ["verify", "--", name]):
            told = one.image(*words)
            assert told.returncode == 125 and b"is not the name of an image" in told.stderr, (name, words[0], told)
        told = one.run(f"--image={name}", "--", "true")
        assert told.returncode == 125 and ("is not the name of an image" in told.stderr or (name == "" and "needs a value" in told.stderr)), (name, told)
    assert [each["name"] for each in one.json("list")["images"]] == ["test/box:latest"]


def test_I10_a_pinned_name_with_other_content(store):
    store.loaded(Image())
    pin = store.json("show", "test/box")["manifest"]
    store.loaded(Image(base(), layer(entry("evil", b"1"))))
    told = store.run("--image", f"test/box@{pin}", "--", "true")
    assert told.returncode == 125 and "not what it is pinned to" in told.stderr, told
    # A file of the store that was exchanged is found at the start.
    shown = store.json("show", "test/box")
    blob = store.images / "blobs" / shown["config"].removeprefix("sha256:")
    blob.write_bytes(blob.read_bytes().replace(b"PATH=/bin", b"PATH=/xxx"))
    told = store.run("--image", "test/box", "--", "true")
    assert told.returncode == 125 and "has other content" in told.stderr, told


@pytest.mark.parametrize("config,said", [
    ({"Env": ["PATH"]}, "has no value"), ({"Env": ["A*=x"]}, "not a variable name"), ({"Env": ["=x"]}, "not a variable name"), ({"Env": ["A B=x"]}, "not a variable name"),
    ({"Env": "PATH=/bin"}, "no list"), ({"Env": [5]}, "no text"), ({"Env": [None]}, "no text"), ({"Cmd": "sh"}, "no list"), ({"Entrypoint": {"a": 1}}, "no list"),
    ({"User": 0}, "no text"), ({"User": "-1"}, "does not know"), ({"User": "99999999999999999999"}, "does not know"), ({"User": "70000"}, "too large"),
    ({"WorkingDir": "app"}, "no absolute path"), ({"WorkingDir": "/../../etc/ssl"}, "working folder"), ({"WorkingDir": ["/"]}, "no text"),
    ({"Labels": ["a"]}, "no object"), ({"Volumes": "x"}, "no object"), ({"StopSignal": 9}, "no text")])
def test_I11_a_config_that_asks_for_more(one, config, said):
    told = one.load(Image(**config))
    if told.returncode == 0:
        told = one.run("--image", "test/box", "--", "true")
        assert told.returncode == 125 and said in told.stderr, told
    else:
        one.refused(told, said)


def test_I11_nothing_of_the_hosts_enters_and_nothing_is_widened(store):
    store.env["HOST_SECRET"] = "4711"
    store.loaded(Image(Env=["PATH=/bin", "LD_PRELOAD=/evil.so", "BRIG_LEVEL=low", "HOST_SECRET="], Volumes={"/etc": {}, "/host": {}},
                       Labels={"brig.level": "low", "brig.allow": "*", "brig.tier": "process"}, ExposedPorts={"22/tcp": {}}))
    told = store.run_json("--image", "test/box", "--", "sh", "-c", "env; ls /")
    assert told["status"] == 0 and "4711" not in told["stdout"] and "host\n" not in told["stdout"].split("LANG")[-1], told
    assert told["level"] == "high" and told["tier"] == "container"
    plain = store.run_json("--", "true")
    ours, theirs = (each["receipt"].get("receipt", each["receipt"]) for each in (told, plain))
    assert ours["boundaries"]["kernel"].keys() == theirs["boundaries"]["kernel"].keys()
    assert ours["weaker_than_level"] == theirs["weaker_than_level"]


def test_I16_the_same_image_twice_at_once_once_corrupt(store):
    upper_data = os.urandom(2_000_000)
    upper = layer(entry("upper", upper_data))
    image = Image(base(), upper)
    good, bad = image.layout(store.new()), image.layout(store.new(), replace_layer(upper[:-1] + b"!"))
    loads = [subprocess.Popen(store.command("load", folder, name), env=store.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
             for folder, name in ((good, "a/good"), (bad, "a/bad"), (good, "b/good"))]
    ends = [(each.communicate(timeout=300), each.returncode) for each in loads]
    # The corrupt one is refused if it is read, and not read if the layer is there by then.
    assert [ends[0][1], ends[2][1]] == [0, 0] and ends[1][1] in (0, 125), ends
    assert (store.root() / "upper").read_bytes() == upper_data
    store.clean()


def test_I16_collecting_against_starting(store):
    """gc beside starts: whatever starts has its files."""
    store.loaded(Image())
    collectors = [subprocess.Popen(["sh", "-c", 'i=0; while [ $i -lt 40 ]; do "$@" >/dev/null || exit 1; i=$((i+1)); done', "sh", *store.command("gc")], env=store.env)
                  for _ in range(2)]
    for _ in range(10):
        assert store.run("--image", "test/box", "--", "cat", "/etc/passwd").stdout.startswith("root:")
    assert [each.wait(timeout=300) for each in collectors] == [0, 0]
    store.clean()

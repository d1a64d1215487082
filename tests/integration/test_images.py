"""`brig image` and `brig run --image`: loading, running, removing; as root and as an ordinary user."""
import json
import os
import shutil
import signal
import subprocess

import jsonschema
import pytest

from helpers import ANY, SANITIZED, TOP, wait_for
from imagelib import ARCH, OCI, Image, Store, base, digest, entry, hardlink, layer, pack, symlink

pytestmark = pytest.mark.skipif(not os.path.exists("/bin/busybox"), reason="images are made from busybox-static")


def test_an_image_runs_with_what_its_config_says(store):
    store.loaded(Image(Env=["PATH=/bin", "GREETING=hello"], WorkingDir="/app", Entrypoint=["/bin/sh", "-c"],
                       Cmd=["echo $GREETING; pwd; id -u; id -g"], User="app"))
    told = store.run("--image", "test/box")
    assert told.stdout.split() == ["hello", "/app", "1234", "1234"], told
    # Words of the caller take the place of the command, not of the entry point.
    assert store.run("--image", "test/box", "--", "echo $0", "x").stdout == "x\n"
    assert store.run("--image", "test/box", "--entrypoint", "echo", "--", "y").stdout == "y\n"
    # What the caller says wins.
    told = store.run("--image", "test/box", "--uid", "77", "-C", "/etc", "-e", "GREETING=bye")
    assert told.stdout.split() == ["bye", "/etc", "77", "77"], told


def test_without_a_user_the_program_is_root_in_its_own_view_only(store):
    store.loaded(Image())
    told = store.run("--image", "test/box", "--", "sh", "-c", "id -u; stat -c %u /bin /bin/busybox; touch /bin/x")
    assert told.stdout.split() == ["0", "0", "0"] and "Read-only file system" in told.stderr, told
    seen = store.run("--image", "test/box", "--", "sh", "-c", "echo /proc/self/status; cat /proc/self/status").stdout
    assert "CapEff:\t0000000000000000" in seen and "NoNewPrivs:\t1" in seen


def test_nothing_of_the_host_is_there(store):
    store.loaded(Image())
    told = store.run("--image", "test/box", "--", "ls", "-A", "/")
    assert set(told.stdout.split()) <= {"bin", "etc", "app", "dev", "proc", "tmp", "run", "home", "workspace", ".brig", ".landlock"}, told
    host = store.run("--", "ls", "/usr/bin/env")
    assert host.returncode == 0, "control: without an image the host's programs are there"
    assert store.run("--image", "test/box", "--", "ls", "/usr/bin/env").returncode == 1


@pytest.mark.parametrize("packer", ["", "+gzip", "+zstd"])
def test_each_compression(one, packer):
    one.loaded(Image(base(), layer(entry("added", b"yes")), packer=packer))
    assert one.run("--image", "test/box", "--", "cat", "/added").stdout == "yes"


def test_an_archive_a_layout_and_stdin_give_the_same(one):
    image = Image(base(), layer(entry("added", b"yes")))
    image.name = "some/tool:v1"
    folder = image.layout(one.new())
    assert one.image("load", folder).returncode == 0
    first = one.json("show", "some/tool:v1")
    archive = pack(folder, one.work / "a.tar")
    assert b"its files were there" in one.image("load", archive, "second").stdout
    assert b"its files were there" in one.image("load", "-", "third", input=archive.read_bytes()).stdout
    docker = image.docker_archive(one.work / "d.tar")
    assert one.image("load", docker, "fourth").returncode == 0
    for name in ("second", "third", "fourth"):
        other = one.json("show", name)
        assert other["files_digest"] == first["files_digest"] and other["config"] == first["config"]
    assert len(list((one.images / "roots").iterdir())) == 1
    # From a store without anything, docker's form alone.
    with Store(ANY) as fresh:
        told = fresh.image("load", image.docker_archive(fresh.work / "d.tar"))
        assert told.returncode == 0 and b"some/tool:v1" in told.stdout, told
        assert fresh.run("--image", "some/tool:v1", "--", "cat", "/added").stdout == "yes"
        assert fresh.json("show", "some/tool:v1")["files_digest"] == first["files_digest"]


def test_what_skopeo_and_podman_write_is_read(one):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    folder = Image(packer="+gzip").layout(one.new())
    for form in ("docker-archive", "oci-archive"):
        path = one.work / form
        made = subprocess.run(["skopeo", "copy", "-q", f"oci:{folder}", f"{form}:{path}:made/by:{form}"], capture_output=True, timeout=120)
        assert made.returncode == 0, made
        told = one.image("load", path)
        assert told.returncode == 0 and f"made/by:{form}".encode() in told.stdout, told
        name = told.stdout.decode().split()[0]  # some write the registry that is meant before it
        assert one.run("--image", name, "--", "echo", "ok").stdout == "ok\n"


def test_a_writable_root_over_an_image(store):
    store.loaded(Image())
    told = store.run("--image", "test/box", "--writable-root", "--", "sh", "-c",
                     "echo changed >/etc/passwd; rm /bin/ls; touch /new; cat /etc/passwd; test -e /bin/ls || echo gone")
    assert told.stdout == "changed\ngone\n", told
    again = store.run("--image", "test/box", "--", "sh", "-c", "ls /bin/ls; cat /etc/passwd; test -e /new || echo not there")
    assert again.stdout.startswith("/bin/ls\nroot:x:0:0") and again.stdout.endswith("not there\n"), again
    store.verify()


def test_layers_hide_and_replace(one):
    lower = layer(entry("gone", b"1"), entry("kept", b"1"), entry("dir"), entry("dir/a", b"1"), entry("dir/b", b"1"), entry("full"), entry("full/x", b"1"),
                  entry("file", b"1"), entry("folder"), entry("folder/in", b"1"), symlink("link", "file"))
    # A name of a file of a lower layer may be one more name of another such.
    upper = layer(hardlink("one", "kept"), hardlink("a", "one"), hardlink("zz", "one"), entry(".wh.gone", b""), entry("dir"), entry("dir/.wh.a", b""), entry("full"), entry("full/new", b"2"),
                  entry("full/.wh..wh..opq", b""), entry("file"), entry("file/inner", b"2"), entry("folder", b"2"), entry("link", b"2"))
    one.loaded(Image(base(), lower, upper))
    root = one.root()
    assert not (root / "gone").exists() and not (root / "dir/a").exists() and (root / "dir/b").read_text() == "1"
    assert sorted(os.listdir(root / "full")) == ["new"]
    assert (root / "file/inner").read_text() == "2" and (root / "folder").read_text() == "2"
    assert not (root / "link").is_symlink() and (root / "link").read_text() == "2"
    assert len({(root / name).stat().st_ino for name in ("kept", "one", "a", "zz")}) == 1


def test_list_show_rm_and_gc(store):
    assert b"there are no images" in store.image("list").stdout
    store.loaded(Image(Labels={"a": "b"}), "test/box")
    store.loaded(Image(base(), layer(entry("more", b"x" * 1000))), "test/two:v2")
    listed = store.json("list")["images"]
    assert [each["name"] for each in listed] == ["test/box:latest", "test/two:v2"] and all(each["usable"] and not each["in_use"] for each in listed)
    shown = store.json("show", "test/two:v2")
    assert shown["architecture"] == ARCH and len(shown["layers"]) == 2 and shown["env"] == ["PATH=/bin"]
    assert store.json("rm", "test/two:v2")["roots"] == 1
    assert len(list((store.images / "roots").iterdir())) == 1 and len(list((store.images / "blobs").iterdir())) == 2
    assert store.image("rm", "test/two:v2").returncode == 125
    assert store.run("--image", "test/two:v2", "--", "true").returncode == 125
    assert store.json("gc") == {"roots": 0, "layers": 0, "documents": 0, "leftovers": 0, "steps": 0, "bytes": 0, "in_use": 0, "layers_wanted": 0}
    assert store.run("--image", "test/box", "--", "true").returncode == 0


def test_what_runs_is_not_removed(store):
    store.loaded(Image())
    running = store.caller.start("--image", "test/box", "--timeout", "5m", "--", "sh", "-c", "echo up; sleep 250; ls /bin", env=store.env)
    try:
        assert running.stdout.readline() == b"up\n"
        assert store.json("list")["images"][0]["in_use"]
        told = store.json("rm", "test/box")
        assert told["roots"] == 0 and told["in_use"] == 1
        assert (store.root() / "bin/busybox").exists() and store.json("gc")["in_use"] == 1
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert store.json("gc")["roots"] == 1
    assert list((store.images / "roots").iterdir()) == []


def test_what_cannot_be_read_is_not_taken_for_unused(one):
    """A link in the place of a file stands for a disk that fails: the kernel refuses to open it."""
    one.loaded(Image())
    manifest = one.images / "blobs" / one.json("show", "test/box")["manifest"].removeprefix("sha256:")
    for path in (next((one.images / "names").iterdir()), manifest):
        aside = one.work / "aside"
        path.rename(aside)
        path.symlink_to("nowhere")
        told = one.image("gc")
        assert told.returncode == 125 and b"nothing was removed" in told.stderr and b"image verify" in told.stderr, told
        path.unlink()
        aside.rename(path)
        assert one.run("--image", "test/box", "--", "true").returncode == 0
        one.verify()
    # What is damaged keeps nothing: a name that is too long to be one does not stand in the way.
    (one.images / "names" / ("0" * 64)).write_bytes(b"x" * 100_000)
    assert one.json("gc")["roots"] == 0
    # The control: what is damaged can be read, and keeps nothing.
    manifest.write_bytes(b"{}")
    assert one.json("gc")["roots"] == 1


def test_verify_finds_what_was_changed(one):
    one.loaded(Image(base(), layer(entry("etc/motd", b"hello"))))
    one.verify()
    path = one.root() / "etc/motd"

    def wrong(*words):
        told = one.image("verify")
        assert told.returncode == 1 and all(word in told.stdout for word in words), told

    path.write_bytes(b"hullo")
    wrong(b"its files are not those")
    path.write_bytes(b"hello")
    one.verify()
    path.chmod(0o777)
    wrong(b"its files are not those")
    path.chmod(0o755)
    (one.root() / "extra").touch()
    wrong(b"its files are not those")
    (one.root() / "extra").unlink()
    shown = one.json("show", "test/box")
    blob = one.images / "blobs" / shown["manifest"].removeprefix("sha256:")
    text = blob.read_bytes()
    blob.write_bytes(text + b" ")
    wrong(b"has other content")
    told = one.run("--image", "test/box", "--", "true")
    assert told.returncode == 125 and "has other content" in told.stderr, told
    blob.write_bytes(text)
    one.verify()


def test_the_receipt_names_the_image(store):
    store.loaded(Image())
    shown = store.json("show", "test/box")
    told = store.run_json("--image", "test/box", "--", "true")
    image = told["receipt"]["receipt"]["image"] if "receipt" in told["receipt"] else told["receipt"]["image"]
    assert image == {"name": "test/box:latest", "manifest": shown["manifest"], "config": shown["config"], "files": shown["files_digest"]}
    schema = json.loads((TOP / "docs/receipt.schema.json").read_text())["properties"]["image"]
    jsonschema.Draft202012Validator(schema).validate(image)


def test_a_policy_may_name_and_pin_an_image(one):
    one.loaded(Image())
    pin = one.json("show", "test/box")["manifest"]
    policy = one.work / "policy.yaml"
    policy.write_text(f"filesystem: {{root: 'image:test/box@{pin}'}}\n")
    assert one.run("--policy", policy, "--", "echo", "ok").stdout == "ok\n"
    told = one.run("--image", "test/box@sha256:" + "0" * 64, "--", "true")
    assert told.returncode == 125 and "not what it is pinned to" in told.stderr, told


def test_what_cannot_be_is_said(one):
    told = one.run("--image", "no/such", "--", "true")
    assert told.returncode == 125 and "there is no image no/such:latest" in told.stderr, told
    one.loaded(Image(User="stranger"))
    told = one.run("--image", "test/box", "--", "true")
    assert told.returncode == 125 and "/etc/passwd does not know it" in told.stderr and "--uid" in told.stderr, told
    assert one.run("--image", "test/box", "--uid", "5", "--", "id", "-u").stdout == "5\n"
    one.loaded(Image(User="1000:100"))
    assert "the group has the number of the user" in one.run("--image", "test/box", "--", "true").stderr
    one.loaded(Image(WorkingDir="/nowhere"))
    assert "working folder" in one.run("--image", "test/box", "--", "true").stderr
    one.loaded(Image())
    told = one.run("--image", "test/box")
    assert told.returncode == 125 and "no command given" in told.stderr, told
    told = one.run("--image", "test/box", "--tier", "process", "--", "true")
    assert told.returncode == 125 and "tier process has no mount namespace" in told.stderr, told
    assert "--entrypoint is for --image" in one.run("--entrypoint", "x", "--", "true").stderr
    told = one.run("--image", "test/box", "--root", "/usr", "--", "true")
    assert told.returncode == 125 and "contradicts" in told.stderr, told


def test_code_of_a_language_runs_in_an_image(one):
    one.loaded(Image(Entrypoint=["/bin/false"]))
    assert one.run("--image", "test/box", "--lang", "sh", "-", input="echo $((6*7))\n").stdout == "42\n"


def test_limits_of_a_load(one):
    one.refused(one.load(Image(base(), layer(entry("big", b"x" * 5_000_000))), "test/box", "--max-size", "4M"), "bytes that are left for it", "--max-size")
    one.refused(one.load(Image(base()), "test/box", "--max-entries", "10"), "more than the 10 entries", "--max-entries")
    one.loaded(Image(base(), layer(entry("big", b"x" * 5_000_000))), "test/box", "--max-size", "20M")


def test_layers_are_kept_once(one):
    """Of two images with layers in common each is unpacked once, and what one hides or replaces the other has."""
    common = [base(), layer(entry("common", b"c" * 5000), entry("both", b"b" * 3000))]
    one.loaded(Image(*common, layer(entry("own", b"1" * 2000), entry("both", b"new"))), "test/first")
    before = {each.name for each in (one.images / "unpacked").iterdir()}
    # A layer that is there is not read again, so that nobody misses it.
    second = Image(*common, layer(entry(".wh.common", b""), entry("own", b"2")))

    def without(documents):
        for each in common:
            documents["blobs"][digest(each)] = b"x" * len(each)

    one.loaded(second, "test/second", change=without)
    layers = {each.name for each in (one.images / "unpacked").iterdir()}
    assert len(before) == 3 and len(layers - before) == 1 and list((one.images / "tmp").iterdir()) == []
    roots = sorted((each / "tree" for each in (one.images / "roots").iterdir()), key=lambda root: (root / "own").stat().st_size)
    assert (roots[0] / "bin/busybox").stat().st_ino == (roots[1] / "bin/busybox").stat().st_ino
    assert (roots[0] / "both").read_text() == "b" * 3000 and (roots[1] / "both").read_text() == "new"
    assert not (roots[0] / "common").exists() and (roots[1] / "common").read_text() == "c" * 5000
    assert all((each / "settled").exists() for each in (one.images / "unpacked").iterdir())
    one.verify()
    shown = {each["name"]: each for each in one.json("list")["images"]}
    assert shown["test/first:latest"]["own_bytes"] == 2003 and shown["test/second:latest"]["own_bytes"] == 1
    shared = shown["test/first:latest"]["shared_bytes"]
    assert shared == shown["test/second:latest"]["shared_bytes"] == one.json("show", "test/second")["shared_bytes"] > 8000
    told = one.json("rm", "test/first")
    assert told["layers"] == 1 and told["bytes"] == 2003, told
    one.verify()
    assert one.run("--image", "test/second", "--", "cat", "/both").stdout == "b" * 3000
    # A file of a layer that the image hides is looked at as well.
    path = one.images / "unpacked" / digest(common[1]).removeprefix("sha256:") / "tree/common"
    path.write_bytes(b"d" * 5000)
    told = one.image("verify")
    assert told.returncode == 1 and b"the layer" in told.stdout, told
    told = one.json("rm", "test/second")
    assert told["layers"] == 3 and list((one.images / "unpacked").iterdir()) == []


def test_many_layers(one):
    layers = [base()] + [layer(entry(f"l{n}", str(n).encode())) for n in range(30)]
    one.loaded(Image(*layers))
    assert one.run("--image", "test/box", "--", "cat", "/l29").stdout == "29"


def test_two_loads_at_once(store):
    folder = Image(base(), layer(entry("x", b"1"))).layout(store.new())
    loads = [subprocess.Popen(store.command("load", folder, f"many/n{n}"), env=store.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
             for n in range(4)]
    for each in loads:
        out, err = each.communicate(timeout=300)
        assert each.returncode == 0, (out, err)
    assert len(list((store.images / "roots").iterdir())) == 1 and len(store.json("list")["images"]) == 4
    store.clean()


def test_killed_at_any_step(one):
    """kill -9 whenever something new is on the disk: what is there is good, and the next load cleans up."""
    one.loaded(Image(base(), layer(entry("first", b"1"))), "keep/this")
    blob = os.urandom(3_000_000)
    folder = Image(base(), layer(entry("second", blob)), layer(entry("third", blob))).layout(one.new())
    seen = set()

    def state():
        # os.walk goes on where a folder is gone by now.
        return [name for sub in ("tmp", "unpacked", "roots", "names", "blobs") for _, folders, files in os.walk(one.images / sub) for name in folders + files][:400]

    for _ in range(12 if not SANITIZED else 4):
        load = subprocess.Popen(one.command("load", folder, "killed/that"), env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

        def fresh():
            if load.poll() is not None:
                return True
            now = len(state())
            if (now not in seen) and now:
                seen.add(now)
                return True
            return False

        wait_for(fresh, what="a step of the load")
        load.kill()
        load.wait()
        one.verify()
        assert one.run("--image", "keep/this", "--", "cat", "/first").stdout == "1"
    assert len(seen) > 3
    assert one.image("load", folder, "killed/that").returncode == 0
    one.image("gc")
    one.clean()
    assert {each["name"] for each in one.json("list")["images"]} == {"keep/this:latest", "killed/that:latest"}


def test_names_that_an_archive_brings(one):
    first, second = Image(), Image(base(), layer(entry("evil", b"1")))
    first.name = second.name = "well/known:v1"
    assert one.image("load", first.layout(one.new())).returncode == 0
    told = one.image("load", second.layout(one.new()))
    one.refused(told, "which is another image here", "--replace")
    told = one.image("load", "--replace", second.layout(one.new()))
    assert told.returncode == 0 and b"was sha256:" in told.stdout, told
    nameless = Image(base(), layer(entry("z", b"1"))).layout(one.new())
    one.refused(one.image("load", nameless), "has no name of its own")


def test_several_images_in_one_archive(one):
    first, second = Image(), Image(base(), layer(entry("b", b"1")))
    blobs, at = second.documents()
    at["annotations"] = {"io.containerd.image.name": "two/b:v2"}

    def both(documents):
        documents["blobs"].update(blobs)
        documents["index"]["manifests"].append(at)

    first.name = "one/a:v1"
    folder = first.layout(one.new(), both)
    one.refused(one.image("load", folder, "only/one"), "more than one image")
    assert one.json("list")["images"] == []
    assert one.image("load", folder).returncode == 0
    assert [each["name"] for each in one.json("list")["images"]] == ["one/a:v1", "two/b:v2"]


def test_the_limits_are_those_of_all_images_of_an_archive(one):
    """A small archive may hold many images, each of which is within them."""
    images = [Image(layer(entry(f"zeros{n}", b"\0" * 5_000_000), *[entry(f"e{m}", b"") for m in range(50)]), packer="+gzip") for n in range(4)]

    def all_of_them(documents):
        for n, image in enumerate(images[1:]):
            blobs, at = image.documents()
            at["annotations"] = {"io.containerd.image.name": f"many/{n}:v1"}
            documents["blobs"].update(blobs)
            documents["index"]["manifests"].append(at)

    images[0].name = "many/first:v1"
    folder = images[0].layout(one.new(), all_of_them)
    for option, value, said in (("--max-size", "12M", b"bytes that are left"), ("--max-entries", "120", b"entries that are left")):
        told = one.image("load", option, value, folder)
        assert told.returncode == 125 and said in told.stderr, told
        assert len(list((one.images / "roots").iterdir())) == 2
        for name in ("many/first:v1", "many/0:v1"):
            assert one.image("rm", name).returncode == 0
        one.image("gc")
        one.clean()
    # The control: as many as it takes; and what is there already counts for nothing.
    for size in ("25M", "1M"):
        assert one.image("load", "--max-size", size, folder).returncode == 0
    assert len(one.json("list")["images"]) == 4


def test_an_index_for_several_machines(one):
    image = Image()
    blobs, at = image.documents()
    other = json.dumps({"schemaVersion": 2}).encode()

    def nest(documents):
        inner = json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [
            {"mediaType": OCI + "manifest.v1+json", "digest": digest(other), "size": len(other), "platform": {"os": "linux", "architecture": "s390x"}},
            {**at, "platform": {"os": "linux", "architecture": ARCH}},
            {**at, "annotations": {"vnd.docker.reference.type": "attestation-manifest"}, "platform": {"os": "unknown", "architecture": "unknown"}}]}).encode()
        documents["blobs"][digest(inner)] = inner
        documents["blobs"][digest(other)] = other
        documents["index"]["manifests"] = [{"mediaType": OCI + "index.v1+json", "digest": digest(inner), "size": len(inner)}]

    one.loaded(image, change=nest)
    assert one.run("--image", "test/box", "--", "echo", "ok").stdout == "ok\n"


def test_unix_sockets_work_in_an_image(one):
    """An image has no sockets of the host in it, so that nothing speaks against them."""
    one.loaded(Image())
    policy = one.run_json("--image", "test/box", "--", "true")
    assert policy["status"] == 0, policy

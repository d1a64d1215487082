"""`brig image pull` and `push`, with a registry on loopback; and images of templates of `brig serve`."""
import base64
import contextlib
import json
import os
import shutil
import subprocess
import threading

import pytest

from helpers import ANY, SANITIZED, wait_for
from imagelib import ARCH, OCI, PACKERS, Image, Store, base, digest, entry, hardlink, layer, symlink
from registrylib import Registry

pytestmark = [pytest.mark.skipif(not os.path.exists("/bin/busybox"), reason="images are made from busybox-static"),
              pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")]


@pytest.fixture
def store(caller):
    """Without logins of this machine's, which are perhaps not for the caller to read."""
    with Store(caller) as made:
        made.env["REGISTRY_AUTH_FILE"] = str(made.work / "auth.json")
        (made.work / "auth.json").write_text("{}")
        yield made


@pytest.fixture(scope="module")
def registry():
    with Registry() as made:
        yield made


def test_pulled_run_and_pinned(store, registry):
    pushed = registry.push(Image(base(), layer(entry("pulled", b"yes")), packer="+gzip"), "team/tool", "v1")
    name = f"{registry.host}/team/tool:v1"
    told = store.image("pull", "--plain-http", "--json", name)
    assert told.returncode == 0, told
    assert json.loads(told.stdout)["manifest"] == pushed, "the digest is the registry's"
    assert store.run("--image", f"{name}@{pushed}", "--", "cat", "/pulled").stdout == "yes"
    # By digest alone; what is there already is not unpacked again.
    told = store.image("pull", "--plain-http", f"{registry.host}/team/tool@{pushed}")
    assert told.returncode == 0 and b"its files were there" in told.stdout, told
    store.clean()


def test_what_the_registry_does_not_have(store, registry):
    told = store.image("pull", "--plain-http", f"{registry.host}/no/such:v1")
    assert told.returncode == 125 and b"skopeo could not pull" in told.stderr, told
    store.clean()
    # Plain HTTP has to be asked for.
    registry.push(Image(), "team/plain", "v1")
    told = store.image("pull", f"{registry.host}/team/plain:v1")
    assert told.returncode == 125, told
    store.clean()


def test_a_registry_that_lies(store, registry):
    image = Image(base(), layer(entry("a", b"1")))
    image.config["rootfs"]["diff_ids"][1] = digest(b"another layer")
    registry.push(image, "team/liar", "v1")
    told = store.image("pull", "--plain-http", f"{registry.host}/team/liar:v1")
    assert told.returncode == 125 and b"not the layer that the config names" in told.stderr, told
    store.clean()
    climbing = Image(base(), layer(entry("../../../../../../tmp/pulled-out", b"1")))
    registry.push(climbing, "team/climber", "v1")
    told = store.image("pull", "--plain-http", f"{registry.host}/team/climber:v1")
    assert told.returncode == 125 and b"climbs out" in told.stderr and not os.path.exists("/tmp/pulled-out"), told
    store.clean()


@pytest.mark.parametrize("layers", [1, 3], ids=["one", "several"])
def test_a_registry_that_sends_without_end(layers):
    """What comes is bounded while it comes, as one file and as several, of which none is too large."""
    with Store(ANY) as store, Registry() as registry:
        store.env["REGISTRY_AUTH_FILE"] = str(store.work / "auth.json")
        (store.work / "auth.json").write_text("{}")
        image = Image(base(), *[layer(entry(f"f{n}", os.urandom(1000))) for n in range(layers)])
        registry.push(image, "team/endless", "v1")
        name = f"{registry.host}/team/endless:v1"
        registry.endless = {digest(each) for each in image.layers[1:]}
        if layers > 1:
            registry.piece, registry.pause, registry.most = 64 << 10, 0.01, 60 << 20
        most = 0

        def look():
            nonlocal most
            sizes = [0]
            for folder, _, files in os.walk(store.images / "tmp"):
                for each in files:
                    with contextlib.suppress(OSError):
                        sizes.append(os.stat(f"{folder}/{each}").st_size)
            most = max(most, sum(sizes))
            return pull.poll() is not None

        pull = subprocess.Popen(store.command("pull", "--plain-http", "--max-size", "6M", name), env=store.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
        wait_for(look, seconds=120, what="the end of the pull")
        said = pull.stderr.read().decode()
        pull.stderr.close()
        assert pull.returncode == 125 and "--max-size" in said and "goroutine" not in said, said
        assert layers == 1 or "bytes that it may have came" in said, said
        assert most <= 16 << 20 and registry.sent < registry.most, (most, registry.sent)
        store.clean()
        # The control: the same image, honestly served.
        registry.endless = set()
        assert store.image("pull", "--plain-http", "--max-size", "6M", name).returncode == 0
        told = store.image("pull", "--plain-http", "--max-entries", "2", name)
        assert told.returncode == 125 and b"files that it may have came" in told.stderr, told
        store.clean()


# ---- what is there already ----


def kinds(image, registry):
    """The image as registries have it: {kind: name}."""
    blobs, at = image.documents()
    manifest = json.loads(blobs[at["digest"]])
    registry.push(image, "team/second", "oci")
    inner = {**at, "platform": {"os": "linux", "architecture": ARCH}}
    other = {**at, "platform": {"os": "linux", "architecture": "s390x"}}
    registry.put({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [other, inner]}, "team/second", "index")
    docker = "application/vnd.docker."
    tar = docker + "image.rootfs.diff.tar" + (".gzip" if image.packer else "")
    registry.put({"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json", "config": {**manifest["config"], "mediaType": docker + "container.image.v1+json"},
                  "layers": [{**each, "mediaType": tar} for each in manifest["layers"]]}, "team/second", "docker")
    return ["oci", "index", "docker"]


@pytest.mark.parametrize("packer", ["", "+gzip"])
def test_layers_that_are_there_are_not_fetched(one, packer):
    """The second image's pull asks for its config and for the one layer that is new, whatever form its manifest has."""
    common = [base(), layer(entry("common", b"c" * 5000))]
    first, second = Image(*common, packer=packer), Image(*common, layer(entry("new", b"n" * 3000)), packer=packer)
    with Registry() as registry:
        registry.push(first, "team/first", "v1")
        assert one.image("pull", "--plain-http", f"{registry.host}/team/first:v1").returncode == 0
        layers = [digest(PACKERS[packer](each)) for each in second.layers]
        config = digest(json.dumps(second.config).encode())
        assert registry.blobs_asked() == {**dict.fromkeys(layers[:2], 1), digest(json.dumps(first.config).encode()): 1}, "control: nothing was there"
        for kind in kinds(second, registry):
            registry.asked.clear()
            name = f"{registry.host}/team/second:{kind}"
            told = one.image("pull", "--plain-http", "--json", name)
            assert told.returncode == 0, told
            assert registry.blobs_asked() == {layers[2]: 1, config: 1}, registry.asked
            if kind != "index":
                assert json.loads(told.stdout)["manifest"] == registry.tags[("team/second", kind)], "the digest is the registry's"
            assert one.run("--image", name, "--", "sh", "-c", "cat /common /new | wc -c").stdout == "8000\n"
            # Once more: all of it is there.
            registry.asked.clear()
            assert b"its files were there" in one.image("pull", "--plain-http", name).stdout
            assert registry.blobs_asked() == {config: 1}
            assert one.json("rm", name)["layers"] == 1
        one.clean()
        # What was asked for less is what it would have been.
        name = f"{registry.host}/team/second:oci"
        assert one.image("pull", "--plain-http", name).returncode == 0
        with Store(ANY) as fresh:
            fresh.env["REGISTRY_AUTH_FILE"] = one.env["REGISTRY_AUTH_FILE"]
            assert fresh.image("pull", "--plain-http", name).returncode == 0
            assert {**fresh.json("show", name), "loaded": ""} == {**one.json("show", name), "loaded": "", "own_bytes": ANYTHING, "shared_bytes": ANYTHING}


class Anything:
    def __eq__(self, other):
        return True


ANYTHING = Anything()


def test_a_layer_that_is_not_fetched_stays_until_the_image_has_it(one):
    """Between the list of what is there and its use, the one image that has it is removed and its files are collected."""
    common = layer(entry("common", b"c" * 5000))
    first, second = Image(base(), common), Image(base(), common, layer(entry("new", b"n")))
    with Registry() as registry:
        registry.push(second, "team/second", "v1")
        gate = registry.gates[digest(second.layers[2])] = threading.Event()
        one.loaded(first, "test/first")
        name = f"{registry.host}/team/second:v1"
        pull = subprocess.Popen(one.command("pull", "--plain-http", name), env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
        wait_for(lambda: digest(second.layers[2]) in registry.blobs_asked() or pull.poll() is not None, seconds=120, what="the pull")
        told = one.json("rm", "test/first")
        assert told["roots"] == 1 and told["layers"] == 0 and told["layers_wanted"] == 2, told
        assert b"an image is being pulled" in one.image("gc").stdout
        gate.set()
        said = pull.communicate(timeout=120)[1]
        assert pull.returncode == 0, said
        assert one.run("--image", name, "--", "sh", "-c", "cat /common | wc -c").stdout == "5000\n"
        assert set(registry.blobs_asked()) == {digest(second.layers[2]), digest(json.dumps(second.config).encode())}
        one.clean()
        # The control: nobody waits for them any more.
        told = one.json("rm", name)
        assert told["layers"] == 3 and told["layers_wanted"] == 0, told


def test_a_stand_in_is_no_layer(one):
    """A layer that is gone all the same, by whatever hand: the image is refused, and its stand-in is not taken for it."""
    second = Image(base(), layer(entry("new", b"n")))
    with Registry() as registry:
        registry.push(second, "team/second", "v1")
        gate = registry.gates[digest(second.layers[1])] = threading.Event()
        one.loaded(Image(), "test/first")
        name = f"{registry.host}/team/second:v1"
        pull = subprocess.Popen(one.command("pull", "--plain-http", name), env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
        wait_for(lambda: digest(second.layers[1]) in registry.blobs_asked() or pull.poll() is not None, seconds=120, what="the pull")
        shutil.rmtree(one.images / "unpacked" / digest(second.layers[0]).removeprefix("sha256:"))
        gate.set()
        said = pull.communicate(timeout=120)[1].decode()
        assert pull.returncode == 125 and "layer 1 of 2" in said and digest(second.layers[0]).removeprefix("sha256:") in said, said
        one.clean()
        # The control: the next one fetches it.
        assert one.image("pull", "--plain-http", name).returncode == 0
        assert one.run("--image", name, "--", "cat", "/new").stdout == "n"


def test_a_pull_that_is_killed_holds_nothing(one):
    second = Image(base(), layer(entry("new", b"n")))
    with Registry() as registry:
        registry.push(second, "team/second", "v1")
        gate = registry.gates[digest(second.layers[1])] = threading.Event()
        one.loaded(Image(), "test/first")
        pull = subprocess.Popen(one.command("pull", "--plain-http", f"{registry.host}/team/second:v1"), env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        wait_for(lambda: digest(second.layers[1]) in registry.blobs_asked(), seconds=120, what="the pull")
        assert list((one.images / "tmp").iterdir()) != [], "control: it is in the making"
        pull.kill()
        pull.wait()
        gate.set()
        told = one.json("rm", "test/first")
        assert told["layers"] == 1 and told["layers_wanted"] == 0 and told["leftovers"] > 0, told
        one.clean()


def test_where_skopeo_cannot_leave_anything_out_all_of_it_is_fetched(one):
    """A colon in the name of a layout begins a tag; and a name that is not there is told once."""
    state = one.state / "with:colon"
    state.mkdir(mode=0o700)
    shutil.chown(state, one.caller.uid, one.caller.uid)
    one.env |= {"XDG_STATE_HOME": str(state), "HOME": str(state)}
    with Registry() as registry:
        registry.push(Image(), "team/first", "v1")
        second = Image(base(), layer(entry("new", b"n")))
        registry.push(second, "team/second", "v1")
        for which in ("first", "second"):
            assert one.image("pull", "--plain-http", f"{registry.host}/team/{which}:v1").returncode == 0
        assert registry.blobs_asked()[digest(base())] == 2
        assert one.run("--image", f"{registry.host}/team/second:v1", "--", "cat", "/new").stdout == "n"
        told = one.image("pull", "--plain-http", f"{registry.host}/team/third:v1")
        assert told.returncode == 125 and told.stderr.count(b"could not pull") == 1 and told.stderr.lower().count(b"unknown") <= 2, told


def test_a_pull_is_killed_at_any_step(one):
    """kill -9 whenever something new is on the disk: what is there is good, and the next pull has it all."""
    common = layer(entry("common", b"c" * 5000))
    image = Image(base(), common, layer(entry("new", os.urandom(3_000_000))), layer(entry("more", os.urandom(3_000_000))))
    seen = set()
    with Registry() as registry:
        registry.push(image, "team/killed", "v1")
        name = f"{registry.host}/team/killed:v1"
        one.loaded(Image(base(), common), "keep/this")
        for _ in range(10 if not SANITIZED else 4):
            pull = subprocess.Popen(one.command("pull", "--plain-http", name), env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

            def fresh():
                if pull.poll() is not None:
                    return True
                # What there is, by kind: names in tmp are drawn.
                now = tuple(sum(len(folders) + len(files) for _, folders, files in os.walk(one.images / sub)) for sub in ("tmp", "unpacked", "roots", "names"))
                known = now in seen
                seen.add(now)
                return not known

            wait_for(fresh, what="a step of the pull")
            pull.kill()
            pull.wait()
            one.verify()
            assert one.run("--image", "keep/this", "--", "sh", "-c", "cat /common | wc -c").stdout == "5000\n"
        assert len(seen) > 3
        registry.asked.clear()
        assert one.image("pull", "--plain-http", name).returncode == 0
        assert not {digest(base()), digest(common)} & set(registry.blobs_asked())
        assert one.run("--image", name, "--", "sh", "-c", "cat /new /more | wc -c").stdout == "6000000\n"
        assert one.json("gc")["layers_wanted"] == 0
        one.clean()


def test_pulls_side_by_side(one):
    """Several that have layers in common with what is there and with each other, while what is there is removed."""
    common = layer(entry("common", b"c" * 5000))
    images = [Image(base(), common, layer(entry("own", str(n).encode()))) for n in range(4)]
    with Registry() as registry:
        for n, image in enumerate(images):
            registry.push(image, "team/many", f"v{n}")
        one.loaded(Image(base(), common), "test/first")
        pulls = [subprocess.Popen(one.command("pull", "--plain-http", f"{registry.host}/team/many:v{n}"), env=one.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
                 for n in range(4)]
        assert one.image("rm", "test/first").returncode == 0
        for each in pulls:
            out, err = each.communicate(timeout=300)
            assert each.returncode == 0, (out, err)
        for n in range(4):
            assert one.run("--image", f"{registry.host}/team/many:v{n}", "--", "cat", "/own").stdout == str(n)
        one.clean()


@pytest.mark.parametrize("name", ["--help=x", "dir:/etc", "oci:/tmp/x", "docker-archive:/etc/passwd", "docker://x", "a b", "u:p@h/x", "/etc/passwd", "", "X"])
def test_I09_nothing_but_a_reference_reaches_skopeo(store, registry, name):
    before = len(registry.asked)
    told = store.image("pull", "--plain-http", "--", name)
    assert told.returncode == 125 and b"is not the name of an image" in told.stderr, told
    assert len(registry.asked) == before


def test_I08_a_login_goes_to_its_registry_alone():
    """The registry redirects blobs elsewhere: elsewhere sees no password and no cookie. The control: the registry sees the password."""
    with Store(ANY) as store, Registry("127.0.0.2") as elsewhere, Registry(login="user:canary-password", elsewhere=elsewhere) as registry:
        image = Image(base(), layer(entry("pulled", b"yes")), packer="+gzip")
        for each in (registry, elsewhere):
            each.push(image, "team/tool", "v1")
        word = base64.b64encode(b"user:canary-password").decode()
        (store.state / "auth.json").write_text(json.dumps({"auths": {registry.host: {"auth": word}}}))
        store.env["REGISTRY_AUTH_FILE"] = str(store.state / "auth.json")
        told = store.image("pull", "--plain-http", f"{registry.host}/team/tool:v1")
        assert told.returncode == 0, told.stderr.decode()
        assert any("/blobs/" in path for path in elsewhere.asked), elsewhere.asked
        assert f"Basic {word}" in registry.credentials, "control: it was used"
        assert elsewhere.credentials == [] and b"canary" not in told.stdout + told.stderr
        # A name whose host only looks like the registry's has no login.
        host = elsewhere.host
        told = store.image("pull", "--plain-http", f"{host}/{registry.host.replace(':', '-')}/tool:v1")
        assert told.returncode == 125 and elsewhere.credentials == [], told
        found = subprocess.run(["grep", "-rl", "-e", word, "-e", "canary-password", store.images], capture_output=True, text=True).stdout
        assert found == "", "nothing of it is in the store"
        store.clean()


@pytest.fixture
def one():
    with Store(ANY) as made:
        made.env["REGISTRY_AUTH_FILE"] = str(made.work / "auth.json")
        (made.work / "auth.json").write_text("{}")
        yield made


def test_pushed_and_pulled_again(one):
    """Layers are packed anew, with all that they say of those below; the same files give the same bytes."""
    lower = layer(entry("usr"), entry("usr/lib"), entry("usr/lib/old", b"1"), symlink("lib", "usr/lib"), entry("gone", b"1"), entry("full"), entry("full/x", b"1"))
    upper = layer(entry("lib/new", b"2", mode=0o600), hardlink("twice", "lib/new"), hardlink("lower", "usr/lib/old"), entry(".wh.gone", b""),
                  entry("full/.wh..wh..opq", b""), entry("full/y", b"2"), entry("n" * 200, b"long"))
    one.loaded(Image(base(), lower, upper, Env=["PATH=/bin", "A=b"], Labels={"a": "b"}))
    before = one.json("show", "test/box")
    with Registry() as registry:
        name = f"{registry.host}/team/pushed:v1"
        told = one.image("push", "--plain-http", "--json", "test/box", name)
        assert told.returncode == 0, told
        pushed = json.loads(told.stdout)["manifest"]
        assert registry.tags[("team/pushed", "v1")] == pushed and pushed != before["manifest"]
        # Once more, under another name: nothing new is sent.
        sent = set(registry.blobs)
        told = one.image("push", "--plain-http", "test/box", f"{registry.host}/team/other")
        assert told.returncode == 0 and pushed in told.stdout.decode() and set(registry.blobs) == sent, told
        one.clean()
        with Store(ANY) as fresh:
            fresh.env["REGISTRY_AUTH_FILE"] = one.env["REGISTRY_AUTH_FILE"]
            told = fresh.image("pull", "--plain-http", f"{name}@{pushed}")
            assert told.returncode == 0, told
            after = fresh.json("show", f"{registry.host}/team/pushed:v1")
            assert after["files_digest"] == before["files_digest"] and after["env"] == before["env"] and len(after["layers"]) == 3
            root = fresh.root()
            assert (root / "lower").stat().st_ino == (root / "usr/lib/old").stat().st_ino and (root / "twice").stat().st_ino == (root / "lib/new").stat().st_ino
        # A registry that does not want it.
        registry.closed = True
        registry.blobs.clear()
        told = one.image("push", "--plain-http", "test/box", name)
        assert told.returncode == 125 and b"skopeo could not push" in told.stderr, told
        one.clean()


@pytest.mark.parametrize("to", ["team/tool", "dir:/tmp/x", "--all", "docker://127.0.0.1:1/x", "oci-archive:/tmp/x", "127.0.0.1:1/x@sha256:" + "0" * 64, "127.0.0.1:1/../x"])
def test_I09_nothing_but_a_registry_is_pushed_to(one, to):
    one.loaded(Image())
    told = one.image("push", "--plain-http", "--", "test/box", to)
    assert told.returncode == 125 and b"skopeo" not in told.stderr.split(b"hint")[0], told
    one.clean()


def test_a_template_names_an_image(store):
    """Sandboxes of `brig serve` whose policy says so; one without the image is refused and the daemon goes on."""
    from daemonlib import Daemon
    store.loaded(Image(base(), layer(entry("inside", b"yes")), Env=["PATH=/bin", "GREETING=hello"], User="app"), "team/tool:v1")
    pin = store.json("show", "team/tool:v1")["manifest"]
    templates = {"tool.yaml": f"policy: {{filesystem: {{root: 'image:team/tool:v1@{pin}'}}, lifecycle: {{sampling: accept}}}}\n",
                 "gone.yaml": "policy: {filesystem: {root: 'image:no/such'}, lifecycle: {sampling: accept}}\n"}
    with Daemon(store.caller.name, templates=templates, env={"XDG_STATE_HOME": str(store.state), "HOME": str(store.state)}) as daemon:
        refused = daemon.request("POST", "/sandboxes", {"templateID": "gone"})
        assert refused.status >= 400, refused
        box = daemon.create("tool")
        told = box.run("/bin/sh", "-c", "cat /inside; echo; echo $GREETING; id -u")
        assert told.out.decode().split() == ["yes", "hello", "1234"], told
        assert store.json("list")["images"][0]["in_use"]
        assert store.json("rm", "team/tool:v1")["in_use"] == 1
        box.kill()

"""docs/openapi.yaml says what brig-daemon serves: the same routes, and answers of the shape that it names."""
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from daemonlib import BRIG, TOP, USERS, Daemon

SPEC = yaml.safe_load((TOP / "docs" / "openapi.yaml").read_text())
METHODS = {"get", "put", "post", "delete", "patch", "head", "options"}


def operations():
    return {(method.upper(), path): op for path, item in SPEC["paths"].items() for method, op in item.items()
            if method in METHODS}


def test_routes_are_those_of_the_program():
    said = subprocess.run([str(Path(BRIG).parent / "brig-daemon"), "--routes"], capture_output=True, text=True, check=True)
    served = {tuple(line.split(" ")) for line in said.stdout.splitlines()}
    assert len(served) > 50
    assert served - set(operations()) == set(), "served but not written down"
    assert set(operations()) - served == set(), "written down but not served"


def test_operations_are_whole():
    ids = [op["operationId"] for op in operations().values()]
    assert len(ids) == len(set(ids)), "operationId twice"
    tags = {tag["name"] for tag in SPEC["tags"]}
    for (method, path), op in operations().items():
        assert op.get("summary") and op.get("responses") and set(op["tags"]) <= tags, (method, path)
        named = set(re.findall(r"{(\w+)}", path))
        item = SPEC["paths"][path]
        given = {resolve(p)["name"] for p in [*item.get("parameters", []), *op.get("parameters", [])]
                 if resolve(p)["in"] == "path"}
        # Contexts share their parameters with routes that name none.
        assert named == given or path.startswith("/contexts/"), (method, path)


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        found = SPEC
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_references_lead_somewhere():
    found = list(references(SPEC))
    assert len(found) > 50
    for node in found:
        assert resolve(node), node


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": int,
         "null": type(None)}


def fits(value, schema, where="the answer"):
    """Enough of JSON Schema for what the file uses."""
    schema = resolve(schema)
    wanted = schema.get("type")
    if wanted:
        kinds = [wanted] if isinstance(wanted, str) else wanted
        assert any(isinstance(value, TYPES[k]) and not (k in ("integer", "number") and isinstance(value, bool))
                   for k in kinds), f"{where}: {value!r} is no {wanted}"
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), f"{where}: {value!r}"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", []):
            assert name in value, f"{where} has no {name}"
        for name, inner in value.items():
            if name in known:
                fits(inner, known[name], f"{where}.{name}")
            else:
                more = schema.get("additionalProperties", True)
                assert more is not False, f"{where}: {name} is not written down"
                if isinstance(more, dict):
                    fits(inner, more, f"{where}.{name}")
    if isinstance(value, list):
        assert len(value) <= schema.get("maxItems", len(value))
        for i, inner in enumerate(value):
            fits(inner, schema.get("items", {}), f"{where}[{i}]")


def test_the_checker_can_fail():
    with pytest.raises(AssertionError):
        fits({"code": "x", "message": "y"}, {"$ref": "#/components/schemas/Error"})
    with pytest.raises(AssertionError):
        fits({"id": "x", "language": "y", "cwd": "z", "more": 1}, {"$ref": "#/components/schemas/Context"})


def answer_fits(answer, method, path):
    op = operations()[(method, path)]
    told = op["responses"].get(str(answer.status))
    assert told, f"{method} {path}: {answer} is not written down"
    content = resolve(told).get("content", {})
    if "application/json" in content:
        fits(answer.json, content["application/json"].get("schema", {}), f"{method} {path}")


@pytest.fixture(scope="module")
def daemon():
    with Daemon(USERS[0]) as made:
        yield made


def test_answers_have_the_shape_that_is_written_down(daemon):
    box = daemon.create("python", metadata={"a": "b"}, network={"allowOut": ["example.org"]})
    box.write("file", b"x")
    box.execute("1")
    one = f"/sandboxes/{box.id}"
    missing = "/sandboxes/" + "0" * 20
    for method, path, sent, body in [
            ("GET", "/sandboxes", "/sandboxes", None), ("GET", "/v2/sandboxes", "/v2/sandboxes", None),
            ("GET", "/sandboxes", "/sandboxes?limit=0", None),
            ("GET", "/sandboxes/{id}", one, None), ("GET", "/sandboxes/{id}", missing, None),
            ("POST", "/sandboxes", "/sandboxes", {"templateID": 1}),
            ("POST", "/sandboxes", "/sandboxes", {"templateID": "nothing"}),
            ("POST", "/sandboxes/{id}/timeout", one + "/timeout", {"timeout": 100}),
            ("POST", "/sandboxes/{id}/timeout", one + "/timeout", {"timeout": "x"}),
            ("POST", "/sandboxes/{id}/refreshes", one + "/refreshes", {}),
            ("POST", "/v2/sandboxes/{id}/connect", "/v2" + one + "/connect", {"timeout": 100}),
            ("GET", "/sandboxes/{id}/metrics", one + "/metrics", None),
            ("PUT", "/sandboxes/{id}/network", one + "/network", {"allowOut": ["a.example"]}),
            ("PUT", "/sandboxes/{id}/network", one + "/network", {"allowOut": [1]}),
            ("GET", "/sandboxes/{id}/logs", one + "/logs", None),
            ("POST", "/sandboxes/{id}/snapshots", one + "/snapshots", {}),
            ("POST", "/sandboxes/{id}/fork", one + "/fork", {}), ("GET", "/snapshots", "/snapshots", None),
            ("POST", "/sandboxes/{id}/pause", one + "/pause", {}), ("POST", "/sandboxes/{id}/pause", one + "/pause", {}),
            ("POST", "/sandboxes/{id}/resume", one + "/resume", {}), ("POST", "/sandboxes/{id}/resume", one + "/resume", {}),
            ("GET", "/templates", "/templates", None),
            ("GET", "/templates/aliases/{alias}", "/templates/aliases/python", None),
            ("DELETE", "/templates/{id}", "/templates/x", None),
            ("GET", "/version", "/version", None), ("GET", "/pools", "/pools", None), ("GET", "/audit", "/audit?limit=5", None),
            ("GET", "/audit/summary", "/audit/summary", None), ("GET", "/audit/verify", "/audit/verify", None),
            ("GET", "/anomalies", "/anomalies", None), ("GET", "/metrics", "/metrics", None), ("GET", "/health", "/health", None),
            ("POST", "/v1/sandbox/run", "/v1/sandbox/run", {"language": "python3", "code": "print(1)"})]:
        answer_fits(daemon.request(method, sent, body), method, path)
    for method, body in [("Stat", {"path": "file"}), ("ListDir", {"path": "."}), ("MakeDir", {"path": "d"}),
                         ("MakeDir", {"path": "d"}), ("Move", {"source": "file", "destination": "d/f"}),
                         ("Remove", {"path": "d"}), ("Stat", {"path": "nothing"})]:
        path = f"/filesystem.Filesystem/{method}"
        answer_fits(box.request("POST", path, body), "POST", path)
    answer_fits(box.request("POST", "/process.Process/List", {}), "POST", "/process.Process/List")
    answer_fits(box.request("GET", "/health"), "GET", "/health")
    made = box.request("POST", "/contexts", {}, port=49999)
    answer_fits(made, "POST", "/contexts")
    answer_fits(box.request("GET", "/contexts", port=49999), "GET", "/contexts")
    restarted = box.request("POST", f"/contexts/{made.json['id']}/restart", {}, port=49999)
    answer_fits(restarted, "POST", "/contexts/{id}/restart")
    answer_fits(box.request("DELETE", f"/contexts/{made.json['id']}", port=49999), "DELETE", "/contexts/{id}")
    answer_fits(daemon.request("DELETE", one), "DELETE", "/sandboxes/{id}")

"""Kubernetes' interface to runtimes (CRI), as kubelet calls it: a small client for containerd's socket. Messages are written field by field, by the
numbers of the interface's definition (runtime.v1), so that no generated code is needed."""
import grpc


def _number(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(fields):
    """{number: value}: a number, text, bytes, a message, a map ({text: text}), or a list of these."""
    out = b""
    for number, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool) or isinstance(one, int):
                out += _number(number << 3) + _number(int(one))
                continue
            if isinstance(one, dict) and any(isinstance(key, str) for key in one):
                out += b"".join(message({number: {1: key, 2: text}}) for key, text in one.items())
                continue
            data = message(one) if isinstance(one, dict) else one.encode() if isinstance(one, str) else one
            out += _number(number << 3 | 2) + _number(len(data)) + data
    return out


def _read_number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{number: the last value}, as bytes or a number."""
    found, at = {}, 0
    while at < len(data):
        key, at = _read_number(data, at)
        if key & 7 == 0:
            found[key >> 3], at = _read_number(data, at)
        elif key & 7 == 2:
            size, at = _read_number(data, at)
            found[key >> 3], at = data[at : at + size], at + size
        else:
            raise ValueError(f"kind {key & 7} of a field")
    return found


class Refused(Exception):
    pass


class Cri:
    def __init__(self, socket):
        self.channel = grpc.insecure_channel(f"unix://{socket}")

    def call(self, name, request, service="Runtime", timeout=120):
        try:
            return fields(self.channel.unary_unary(f"/runtime.v1.{service}Service/{name}")(message(request), timeout=timeout))
        except grpc.RpcError as error:
            raise Refused(error.details()) from None

    def pod(self, config, handler="brig"):
        return self.call("RunPodSandbox", {1: config, 2: handler})[1].decode()

    def create(self, pod, pod_config, config):
        return self.call("CreateContainer", {1: pod, 2: config, 3: pod_config})[1].decode()

    def status(self, container):
        """(state, exit status): 1 runs, 2 has ended."""
        told = fields(self.call("ContainerStatus", {1: container})[1])
        return told.get(3, 0), told.get(7, 0)

    def exec(self, container, *command):
        told = self.call("ExecSync", {1: container, 2: list(command), 3: 60})
        return told.get(3, 0), told.get(1, b"").decode(), told.get(2, b"").decode()

"""Runs cells of Python for brig: requests come over descriptor 3, results go back over 4 (wire/interp.h).

One process is one context: a namespace that stays, a count, an event loop. What is printed goes to descriptors 1 and 2,
which are pipes of the front: nothing here stands between code and its output.

This program shares its process with the code that it runs. Nothing in it protects anybody: it is made to be useful to
honest code and to stay alive under clumsy code. Importing it has no effect; serve() does the work, in two parts for a
process that is cloned in between (template/template.py): prepare() and run().

Python 3.8 or newer, the standard library only.
"""
import __future__
import ast
import binascii
import builtins
import io
import json
import linecache
import os
import re
import site
import sys
import types
from _signal import SIGINT, signal as set_handler  # signal's own makes an enumeration of each number
from _thread import allocate_lock, get_ident

FRAME_MAX = 15 << 20  # of 16: a frame that is longer costs the context
TEXT_MAX = 1 << 20
VALUE_MAX = 32 << 10
TRACEBACK_MAX = 256 << 10
VALUES_MAX = 100_000  # of one result, as JSON
TABLE_MAX = 10_000  # cells of a table that is sent as data, too
FRAMES_SHOWN = 30
COROUTINE = 0x80  # of a code object's flags: it awaits at its top

MEMBERS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
    "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript",
}
BINARY = ("png", "jpeg", "pdf")
FIGURES = {"formats": ["png"], "scale": 1}  # as %config says
MEASURED = {"proven": False}  # is tight_box() what matplotlib itself would find? rehearse_figure() looks
METHODS = [(f"_repr_{name}_", name) for name in MEMBERS.values() if name != "text"]

DECODE = json.JSONDecoder().scan_once
REHEARSAL = '{"op":"execute","id":1,"code":"print(end=\'\')"}'

session = None  # of this process, once it serves


# ---- text and values that the front accepts ----

def clean(text):
    """The same text without what JSON cannot carry to the front: NUL and halves of characters."""
    text = str.__str__(text)
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut(text, most):
    """Cleaned, and at most so many bytes."""
    text = clean(text)
    if len(text) * 4 > most:
        data = text.encode()
        if len(data) > most:
            note = f"\n… ({len(data)} bytes in all)"
            text = data[:most - 40].decode(errors="ignore") + note
    return text


class Plain:
    """Values as JSON has them; counts them, so that a huge one fails instead of filling the channel."""

    def __init__(self, other=None):
        self.left = VALUES_MAX
        self.other = other

    def value(self, value, depth=0):
        self.left -= 1
        if self.left < 0 or depth > 24:
            raise ValueError("too much for one result")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if -2 ** 63 <= value < 2 ** 63 else str(value)
        if isinstance(value, float):
            return float(value) if value - value == 0 else None
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, dict):
            return {clean(str(key)): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in value]
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy
            return self.value(value.item(), depth + 1)
        if self.other is None:
            raise TypeError(f"{type(value).__name__} is not plain data")
        return clean(self.other(value))


def spoken(value):
    """How a value of a table reads."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# ---- the channel ----

class Channel:
    def __init__(self, requests, answers):
        self.fd = requests
        self.out = answers
        self.lock = allocate_lock()
        self.writer = None  # the thread that is in the middle of a frame

    def _read_exactly(self, size):
        parts = []
        while size:
            part = os.read(self.fd, min(size, 1 << 20))
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def read(self):
        """The next request; None at the end."""
        header = self._read_exactly(4)
        body = header and self._read_exactly(int.from_bytes(header, "little"))
        return DECODE(body.decode(), 0)[0] if body else None

    def write(self, message, is_wanted=None):
        """A message, or the text of one: what every cell says is not worth an encoder. Whether it is still wanted is asked when
        nothing else can be said before it."""
        if type(message) is not str:
            message = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        body = message.encode()
        data = memoryview(len(body).to_bytes(4, "little") + body)
        with self.lock:
            if is_wanted and not is_wanted():
                return
            self.writer = get_ident()
            try:
                while data and self.out >= 0:
                    data = data[os.write(self.out, data):]
            finally:
                self.writer = None


# ---- what a value looks like ----

def binary(value):
    if isinstance(value, str):  # base64 already
        value = binascii.a2b_base64(value)
    return binascii.b2a_base64(bytes(value), newline=False).decode()


def member(data, name, value):
    """Puts one member into a result; what is not of the kind that it must be is left out."""
    if isinstance(value, tuple) and value:  # with metadata
        value = value[0]
    if value is None:
        return
    if name in BINARY:
        data[name] = binary(value)
    elif name == "json":
        data[name] = Plain().value(json.loads(value) if isinstance(value, str) else value)
    elif name == "extra":
        data[name] = value
    else:
        data[name] = clean(str(value))


def complain(what):
    print(f"brig: {what}: {describe(sys.exc_info()[1])}", file=sys.stderr)


def describe(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def attempt(data, name, produce):
    try:
        member(data, name, produce())
    except NotImplementedError:
        pass
    except Exception:
        complain(f"no {name} of this value")


def add_bundle(data, bundle):
    if isinstance(bundle, tuple):
        bundle = bundle[0] if bundle else None
    for mime, value in (bundle or {}).items():
        if mime in MEMBERS:
            attempt(data, MEMBERS[mime], lambda v=value: v)
        elif isinstance(mime, str) and "/" in mime:
            attempt(data, "extra", lambda m=mime, v=value: {**data.get("extra", {}), m: Plain().value(v)})


def text_of(value):
    text = repr(value)
    if isinstance(value, str) and text[:1] in "'\"" and text[:1] == text[-1:]:
        text = text[1:-1]
    return text


def look(value):
    """A value as a result's data."""
    kind = type(value)
    data = {}
    if hasattr(kind, "_repr_mimebundle_"):
        try:
            add_bundle(data, value._repr_mimebundle_(include=None, exclude=None))
        except Exception:
            complain("no bundle of this value")
    for method, name in METHODS:
        if name not in data and hasattr(kind, method):
            attempt(data, name, lambda: getattr(value, method)())
    if "text" not in data:
        data["text"] = clean(text_of(value))
    look_at_known(value, data)
    return data


def look_at_known(value, data):
    """What libraries' own values have besides; a library that nobody loaded is not asked."""
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if isinstance(value, (list, dict)) and "json" not in data:
        try:
            data["json"] = Plain().value(value)
        except Exception:
            pass  # there is more in it than JSON has
    if figure and isinstance(value, figure):
        look_at_figure(value, data)
    if frame and isinstance(value, frame) and value.size <= TABLE_MAX:
        try:
            data["data"] = Plain(spoken).value(value.to_dict(orient="list"))
        except Exception:
            pass


def look_at_figure(figure, data):
    for name in FIGURES["formats"]:
        if name not in data:
            attempt(data, name, lambda: picture(figure, name))
    try:  # after it was drawn: the texts of ticks are made then
        chart = Plain().value(part("charts").figure_chart(figure))
    except Exception:
        return
    if chart:
        data["chart"] = chart


def picture(figure, format):
    out = io.BytesIO()
    colors = {"facecolor": figure.get_facecolor(), "edgecolor": figure.get_edgecolor()}
    box = tight_box(figure) if format == "png" and MEASURED["proven"] else "tight"
    figure.canvas.print_figure(out, format=format, dpi=figure.dpi * FIGURES["scale"], bbox_inches=box, **colors)
    return out.getvalue().decode() if format == "svg" else out.getvalue()


def tight_box(figure):
    """The box that "tight" stands for. To find it, matplotlib draws a figure as a whole, measures it, and draws it again.
    The first drawing is for what has its place only after it was drawn. A figure that has nothing of the kind is measured at
    once, which saves a sixth of its time; all others are left to matplotlib."""
    try:
        if FIGURES["scale"] == 1 and part("charts").is_settled(figure):
            box = figure.get_tightbbox(figure.canvas.get_renderer())
            return box.padded(sys.modules["matplotlib"].rcParams["savefig.pad_inches"])
    except Exception:
        pass  # another matplotlib than those that this was written for
    return "tight"


class Own:
    """The names of this file, for the others of the driver."""

    def __getattr__(self, name):
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(name) from None


def part(name):
    """Another file of this driver: charts.py once there is a figure, ipython.py once a cell asks for what is in it."""
    module = sys.modules.get("brig_" + name)
    if module is None:
        import importlib.util
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
        spec = importlib.util.spec_from_file_location("brig_" + name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.own = Own()
        sys.modules["brig_" + name] = module
    return module


def fit(data):
    """Leaves out what is too large, the largest first."""
    sizes = {}
    for name, value in data.items():
        sizes[name] = len(json.dumps(value, ensure_ascii=False).encode())
    if sizes.get("text", 0) > TEXT_MAX:
        data["text"] = cut(data["text"], TEXT_MAX)
        sizes["text"] = len(json.dumps(data["text"], ensure_ascii=False).encode())
    while sum(sizes.values()) > FRAME_MAX:
        name = max((n for n in sizes if n != "text"), key=sizes.get, default="text")
        print(f"brig: the {name} of this result has {sizes.pop(name)} bytes, too many to be sent", file=sys.stderr)
        del data[name]
    return data


# ---- errors ----

CELL = re.compile(r"<cell (\d+)(?:\.\w+)?>")


def place(filename, line, function):
    cell = CELL.fullmatch(filename)
    where = f"Cell In[{cell[1]}], line {line}" if cell else f"File {filename}:{line}"
    return where + (f", in {function}" if function else "")


def signature(code):
    if code.co_name == "<module>":
        return ""
    count = code.co_argcount + code.co_kwonlyargcount
    return f"{code.co_name}({', '.join(code.co_varnames[:count])})"


def excerpt(filename, line, names):
    """The lines around this one, with an arrow."""
    lines = linecache.getlines(filename, names)
    text = []
    for number in range(max(1, line - 2), min(len(lines), line + 2) + 1):
        mark = str(number)
        mark = "-" * (5 - len(mark)) + "> " + mark if number == line else mark.rjust(7)
        text.append(f"{mark} {lines[number - 1].rstrip()}"[:400])
    return text if 1 <= line <= len(lines) else []


def frames_of(trace):
    """(frame, line) of each step that is not ours, nor of the loop that we run cells in."""
    found = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and (found or f"{os.sep}asyncio{os.sep}" not in file):
            found.append((trace.tb_frame, trace.tb_lineno or 0))
        trace = trace.tb_next
    return found


def trace_text(error):
    frames = frames_of(error.__traceback__)
    blocks = []
    skipped = len(frames) - FRAMES_SHOWN
    for at, (frame, line) in enumerate(frames):
        if skipped > 0 and FRAMES_SHOWN // 2 <= at < FRAMES_SHOWN // 2 + skipped:
            if at == FRAMES_SHOWN // 2:
                blocks.append(f"    [... {skipped} more frames ...]")
            continue
        code = frame.f_code
        lines = [place(code.co_filename, line, signature(code))]
        lines += excerpt(code.co_filename, line, frame.f_globals)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def one_error(error):
    import traceback
    only = "".join(traceback.format_exception_only(type(error), error))
    only = re.sub(r'File "<cell (\d+)(?:\.\w+)?>", line', r"Cell In[\1], line", only).rstrip("\n")
    if isinstance(error, getattr(builtins, "BaseExceptionGroup", ())):
        only = "".join(traceback.format_exception(type(error), error, None)).rstrip("\n")
    trace = trace_text(error)
    if not trace and isinstance(error, SyntaxError):
        return only
    name = type(error).__name__
    head = f"{name:<42}Traceback (most recent call last)"
    return "\n".join(["-" * 75, head] + ([trace, ""] if trace else []) + [only])


def error_text(error):
    """The error and those that led to it, the first first."""
    parts, seen = [], set()
    while error is not None and id(error) not in seen and len(parts) < 20:
        seen.add(id(error))
        parts.append(one_error(error))
        if error.__cause__ is not None:
            parts.append("The above exception was the direct cause of the following exception:")
            error = error.__cause__
        elif error.__context__ is not None and not error.__suppress_context__:
            parts.append("During handling of the above exception, another exception occurred:")
            error = error.__context__
        else:
            break
    else:
        parts = parts[:-1] if len(parts) % 2 == 0 else parts
    return "\n\n".join(reversed(parts))


def error_message(error):
    name = clean(type(error).__name__)[:60]
    try:
        value = str(error.code if type(error) is SystemExit else error)
    except Exception:
        value = "(its text is not available)"
    try:
        text = error_text(error)
    except Exception:
        text = f"{name}: {value}"
    return {"name": name, "value": cut(value, VALUE_MAX), "traceback": cut(text, TRACEBACK_MAX)}


# ---- the marks that are not Python: !command, %word, %%word ----

class UsageError(Exception):
    pass


PROMPTS = ((re.compile(r">>>( |$)"), re.compile(r"(>>>|\.\.\.)( |$)")),
           (re.compile(r"In \[\d+\]: "), re.compile(r"In \[\d+\]: |\s*\.{3,}: ?")))


def tidy(code):
    """A cell as it was meant, if it was copied from somewhere: without empty lines before it, without the white space that
    its first line begins with in all lines that begin with the same, and without prompts."""
    if not code[:1].isspace() and not code.startswith((">>>", "In [")):
        return code
    lines = code.split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    space = re.match(r"[ \t]*", lines[0])[0]
    if space:
        lines = [line[len(space):] if line.startswith(space) else line for line in lines]
    for first, every in PROMPTS:
        if first.match(lines[0]):
            lines = [every.sub("", line, count=1) if every.match(line) else line for line in lines]
    return "\n".join(lines)


HELP = re.compile(r"(?P<indent>\s*)(?:\?\??(?P<before>[\w.]+)|(?P<after>[A-Za-z_%][\w.]*)\?\??)\s*")
LINE = re.compile(r"(?P<indent>\s*)(?P<target>[A-Za-z_][\w.\[\]'\", ]*=\s*)?(?P<mark>[!%])(?P<rest>(?![%=]).*)")


def translate_line(line):
    """A line that begins with a mark, or assigns one, as Python; None if it is neither."""
    match = HELP.fullmatch(line)
    if match:
        return f"{match['indent']}__brig__.help({match['before'] or match['after']!r})"
    match = LINE.fullmatch(line)
    if not match or not match["rest"].strip():
        return None
    target, rest = match["target"] or "", match["rest"].strip()
    if match["mark"] == "!":
        both = rest.startswith("!")
        call = f"__brig__.{'lines' if target or both else 'system'}({rest[both:]!r})"
    else:
        name, _, rest = rest.partition(" ")
        call = f"__brig__.magic({name!r}, {rest.strip()!r})"
    return match["indent"] + target + call


def parse(code, filename, flags):
    """The tree of a cell. Lines that Python refuses and that begin with a mark are translated, one by one: so a mark
    inside a string, or an operator at the start of a line, stays what it is."""
    lines = None
    while True:
        try:
            return compile(code, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
        except SyntaxError as error:
            lines = lines or code.split("\n")
            at = (error.lineno or 0) - 1
            line = translate_line(lines[at]) if 0 <= at < len(lines) else None
            if line is None:
                raise
            while lines[at].endswith("\\") and at + 1 < len(lines):  # a command that goes on
                lines[at] = lines[at][:-1] + " " + lines[at + 1].strip()
                line = translate_line(lines[at])
                del lines[at + 1]
            lines[at] = line
            code = "\n".join(lines)


def expand(command, names):
    """$name and {expression} of Python's in a command; what Python does not know is left to the shell."""
    def braces(match):
        try:
            return str(eval(match[1], names))
        except Exception:
            return match[0]

    def dollar(match):
        return str(names[match[1]]) if match[1] in names else match[0]

    command = re.sub(r"(?<!\$)\{([^{}]+)\}", braces, command)
    return re.sub(r"(?<!\$)\$([A-Za-z_]\w*)", dollar, command).replace("$$", "$")


class Marks:
    """What !, % and %% stand for; code knows it as __brig__."""

    def __init__(self, names):
        self.names = names
        self.given = set(names)
        self.rarer = None
        self.folder = None  # the one before, for %cd -

    def _find(self, kind, name):
        work = getattr(self, f"{kind}_{name}", None)
        if work is None:
            self.rarer = self.rarer or part("ipython").More(self)
            work = getattr(self.rarer, f"{kind}_{name}", None)
        return work

    def _shell(self):
        return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"

    def _call(self, command, **options):
        import subprocess
        flush()
        if isinstance(sys.stdout, io.StringIO):  # %%capture
            options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, **options)
        for said, stream in ((done.stdout, sys.stdout), (done.stderr, sys.stderr)):
            stream.write(said.decode(errors="replace") if said else "")
        adopt_user_site()
        return done.returncode

    def system(self, command):
        status = self._call(expand(command, self.names), shell=True, executable=self._shell())
        self.names["_exit_code"] = status

    def lines(self, command):
        import subprocess
        flush()
        done = subprocess.run(expand(command, self.names), shell=True, executable=self._shell(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.names["_exit_code"] = done.returncode
        adopt_user_site()
        return Lines(done.stdout.decode(errors="replace").splitlines())

    def magic(self, name, rest):
        work = self._find("line", name)
        if work is None:
            raise UsageError(f"%{name} is not supported here; there are {self._known('line_', '%')} and !command")
        return work(rest)

    def cell(self, name, rest, body):
        work = self._find("cell", name)
        if work is None:
            raise UsageError(f"%%{name} is not supported here; there are {self._known('cell_', '%%')}")
        return work(rest, body)

    def _known(self, prefix, mark):
        self.rarer = self.rarer or part("ipython").More(self)
        names = {*dir(self), *dir(self.rarer)}
        return ", ".join(mark + name[len(prefix):] for name in sorted(names) if name.startswith(prefix))

    def by_itself(self, code):
        """A cell of one line that begins with the name of a mark: `pip install x`, `ls`. Not where that name means something, and
        not where something is done with it."""
        match = re.fullmatch(r"([A-Za-z_]\w*)(?:[ \t]+(?![=,:.)\]]|[-+*/%&|^@<>]=)(.*))?", code.strip())
        if not match or match[1] in self.names or hasattr(builtins, match[1]):
            return code
        import keyword
        known = not keyword.iskeyword(match[1]) and self._find("line", match[1])
        return f"%{match[1]} {match[2] or ''}" if known else code

    def shown(self, value):
        if value is not None:
            session.send(look(value))

    def line_pip(self, rest):
        import importlib
        import shlex
        words = shlex.split(expand(rest, self.names))
        self.names["_exit_code"] = self._call([sys.executable, "-m", "pip", *words])
        importlib.invalidate_caches()

    def line_cd(self, rest):
        place, before = expand(rest, self.names).strip("'\"") or "~", os.getcwd()
        os.chdir(self.folder or before if place == "-" else os.path.expanduser(place))
        self.folder = before
        print(os.getcwd())

    def line_pwd(self, rest):
        return os.getcwd()

    def line_env(self, rest):
        if not rest:
            return dict(os.environ)
        name, mark, value = rest.partition("=") if "=" in rest else rest.partition(" ")
        if not mark:
            return os.environ[name]
        os.environ[name.strip()] = expand(value.strip(), self.names)
        print(f"env: {name.strip()}={os.environ[name.strip()]}")

    line_set_env = line_env

    def _own(self, rest):
        """Names that cells made, of the types that are asked for."""
        kinds = rest.split()
        names = [name for name in self.names if not name.startswith("_") and name not in self.given]
        return sorted(name for name in names if not kinds or type(self.names[name]).__name__ in kinds)

    def line_who_ls(self, rest):
        return self._own(rest)

    def line_who(self, rest):
        names = self._own(rest)
        print("\t ".join(names) if names else "Interactive namespace is empty.")

    def line_whos(self, rest):
        rows = [("Variable", "Type", "Data/Info")]
        for name in self._own(rest):
            value = self.names[name]
            try:
                shown = f"n={len(value)}" if isinstance(value, (list, dict, set, tuple)) else repr(value)
            except Exception:
                shown = ""
            rows.append((name, type(value).__name__, shown.split("\n")[0][:60]))
        widths = [max(len(row[at]) for row in rows) + 2 for at in (0, 1)]
        rows.insert(1, ("-" * sum(widths) + "-" * 9, "", ""))
        print("\n".join(f"{a:<{widths[0]}}{b:<{widths[1]}}{c}".rstrip() for a, b, c in rows))

    def line_lsmagic(self, rest):
        print(f"{self._known('line_', '%')}\n{self._known('cell_', '%%')}\n!command, name?")

    def line_ls(self, rest):
        self.system("ls " + rest)

    def line_cat(self, rest):
        self.system("cat " + rest)

    def line_run(self, rest):
        """A file as if it were this cell."""
        import shlex
        words = shlex.split(expand(rest, self.names))
        if not words:
            raise UsageError("%run FILE [ARGUMENT...]")
        with open(os.path.expanduser(words[0]), encoding="utf-8") as file:
            code = compile(file.read(), words[0], "exec")
        before, sys.argv = sys.argv, words
        try:
            exec(code, self.names)
        finally:
            sys.argv = before

    def line_config(self, rest):
        every = re.fullmatch(r"InteractiveShell\.ast_node_interactivity\s*=\s*[\"'](all|last_expr)[\"']", rest)
        if every:
            part("ipython").InteractiveShell.ast_node_interactivity = every[1]
            return
        if re.match(r"(?!InlineBackend\.figure_format|InteractiveShell\.ast_node)\w+\.\w+\s*=", rest):
            print(f"brig: %config {rest.split('=')[0].strip()} has no effect here", file=sys.stderr)
            return
        match = re.fullmatch(r"InlineBackend\.figure_formats?\s*=\s*(.+)", rest)
        words = set(re.findall(r"\w+", match[1])) if match else set()
        if not words or not words <= {"png", "retina", "svg", "pdf"}:
            raise UsageError("%config InlineBackend.figure_format = 'png', 'retina', 'svg' or 'pdf' is all there is")
        FIGURES["scale"] = 2 if "retina" in words else 1
        FIGURES["formats"] = sorted({"png" if word == "retina" else word for word in words})

    def help(self, name):
        import inspect
        if name.startswith("%"):
            return self.line_lsmagic("")
        value = eval(name, self.names)
        try:
            print(f"Signature: {name}{inspect.signature(value)}")
        except (TypeError, ValueError):
            pass
        print(f"Type:      {type(value).__name__}\nDocstring: {inspect.getdoc(value) or '<no docstring>'}")

    def line_matplotlib(self, rest):
        if rest not in ("", "inline", "agg", "notebook", "widget", "ipympl"):
            raise UsageError(f"%matplotlib {rest}: there is no screen; figures are sent as pictures")

    def line_time(self, rest):
        return session.timed(rest)

    def line_timeit(self, rest):
        return self._timeit(rest, None)

    def cell_timeit(self, rest, body):
        return self._timeit(rest, body)

    def _timeit(self, rest, body):
        """Of a cell, the line of the mark is what is done once, before."""
        import getopt
        import timeit
        try:
            options, words = getopt.getopt(rest.split(" ") if rest else [], "n:r:p:tcqo")
        except getopt.GetoptError as error:
            raise UsageError(f"%timeit [-n LOOPS] [-r RUNS] CODE: {error}") from None
        options, code = dict(options), " ".join(words)
        timer = timeit.Timer(body, code or "pass", globals=self.names) if body else timeit.Timer(code, globals=self.names)
        number = int(options.get("-n", 0)) or timer.autorange()[0]
        times = [t / number for t in timer.repeat(int(options.get("-r", 5)), number)]
        average = sum(times) / len(times)
        if "-q" not in options:
            print(f"{short_time(min(times))} per loop, the best of {len(times)} runs of {number} loops; {short_time(average)} on average")
        if "-o" in options:
            return types.SimpleNamespace(best=min(times), worst=max(times), average=average, all_runs=times, loops=number)
        return None

    def cell_time(self, rest, body):
        return session.timed(rest + "\n" + body)

    def cell_bash(self, rest, body):
        self._script("bash", rest, body)

    def cell_sh(self, rest, body):
        self._script("sh", rest, body)

    def cell_script(self, rest, body):
        import shlex
        words = shlex.split(rest)
        if not words:
            raise UsageError("%%script PROGRAM [ARGUMENT...]")
        self._script(words[0], " ".join(map(shlex.quote, words[1:])), body, fed=True)

    def cell_python(self, rest, body):
        self._fed([sys.executable, "-"], body)

    cell_python3 = cell_python

    def cell_javascript(self, rest, body):
        session.send({"javascript": clean(body)})

    cell_js = cell_javascript

    def cell_latex(self, rest, body):
        session.send({"latex": clean(body)})

    def cell_svg(self, rest, body):
        session.send({"svg": clean(body)})

    def cell_capture(self, rest, body):
        """What is printed, into a name; results of the cell are not shown."""
        import contextlib
        names = [word for word in rest.split() if not word.startswith("-")]
        taken = Captured(io.StringIO(), io.StringIO())
        with contextlib.redirect_stdout(taken.out), contextlib.redirect_stderr(taken.err):
            session.run(body, f"<cell {session.count}.capture>")
        if names:
            self.names[names[0]] = taken

    def _script(self, program, rest, body, fed=False):
        """--out NAME and --err NAME keep what it says, --no-raise-error its status; other words are the program's."""
        import shlex
        words, kept, calm = shlex.split(rest), {}, False
        while words and words[0] in ("--out", "--err", "--no-raise-error"):
            word = words.pop(0)
            if word == "--no-raise-error":
                calm = True
            elif words:
                kept["stdout" if word == "--out" else "stderr"] = words.pop(0)
        if words[:1] == ["--bg"]:
            raise UsageError(f"%%{program} --bg: put & behind the commands that are to go on")
        if fed or words or kept or calm:
            self._fed([program, *words], body, kept, calm)
        elif len(body) < 100_000:
            self._status(self._call([program, "-c", body]), program)
        else:
            self._fed([program, "-s"], body)

    def _fed(self, command, body, kept=None, calm=False):
        import subprocess
        flush()
        pipes = {name: subprocess.PIPE for name in kept or {}}
        done = subprocess.run(command, input=body.encode(), **pipes)
        for stream, name in (kept or {}).items():
            self.names[name] = getattr(done, stream).decode(errors="replace")
        if calm:
            self.names["_exit_code"] = done.returncode
        else:
            self._status(done.returncode, command[0])

    def _status(self, status, program):
        import subprocess
        self.names["_exit_code"] = status
        if status:
            raise subprocess.CalledProcessError(status, program)

    def cell_writefile(self, rest, body):
        import shlex
        words = shlex.split(rest)
        if not words or len(words) > 2 or (len(words) == 2 and words[0] != "-a"):
            raise UsageError("%%writefile [-a] FILE")
        with open(os.path.expanduser(words[-1]), "a" if len(words) == 2 else "w", encoding="utf-8") as file:
            file.write(body)
        print(f"{'Appending to' if len(words) == 2 else 'Writing'} {words[-1]}")

    def cell_html(self, rest, body):
        session.send({"html": clean(body)})

    def cell_markdown(self, rest, body):
        session.send({"markdown": clean(body)})


class Lines(list):
    """What a command said, line by line, or as one text: .s and .n."""
    l = list = property(lambda self: self)
    s = spstr = property(" ".join)
    n = nlstr = property("\n".join)


class Captured:
    def __init__(self, out, err):
        self.out, self.err = out, err

    stdout = property(lambda self: self.out.getvalue())
    stderr = property(lambda self: self.err.getvalue())

    def __str__(self):
        return self.stdout

    def show(self):
        print(self.stdout, end="")
        print(self.stderr, end="", file=sys.stderr)

    __call__ = show


def short_time(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


# ---- figures ----

class ImportHook:
    """Changes what cells see of some modules when these are imported; none of them is ever imported by us."""

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            HOOKS[name](module)

        spec.loader.exec_module = exec_module
        return spec


def hook_pyplot(module):
    def show(*args, **kwargs):
        """Sends the figures that are open, and closes them."""
        for data in take_figures():
            session.send(data)

    module.show = show


def hook_pil(module):
    """Saving an image shows it: that is how most code hands one over. There is no screen to show it on otherwise."""
    save = module.Image.save

    def save_and_show(self, fp, *args, **kwargs):
        caller = sys._getframe(1).f_globals.get("__name__") or ""
        if isinstance(fp, (str, os.PathLike)) and not caller.startswith(("matplotlib.", "PIL.")):
            display(self)
        return save(self, fp, *args, **kwargs)

    module.Image.save = save_and_show
    module.Image.show = lambda self, *args, **kwargs: None


HOOKS = {"matplotlib.pyplot": hook_pyplot, "PIL.Image": hook_pil}


def take_figures():
    """The open figures as results; they are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or not hasattr(plt, "get_fignums"):
        return []
    try:
        figures = [plt.figure(number) for number in plt.get_fignums()]
        return [look(figure) for figure in figures if figure.axes or figure.lines or figure.texts]
    finally:
        plt.close("all")


# ---- what is there of IPython where it is not installed (more of it is in ipython.py) ----

class Events:
    """Accepted, so that libraries that want to hear of cells go on; nothing is told to them."""

    def register(self, name, function):
        pass

    unregister = register


class Shell:
    """What get_ipython() gives: enough of IPython's shell for code that asks for marks and names."""
    config = {}

    def __init__(self, marks):
        self.marks, self.user_ns, self.events = marks, marks.names, Events()

    execution_count = property(lambda self: session.count)

    def run_line_magic(self, name, line, _stack_depth=1):
        return self.marks.magic(name, line)

    def run_cell_magic(self, name, line, cell):
        return self.marks.cell(name, line, cell)

    def magic(self, text):
        name, _, rest = text.lstrip("%").partition(" ")
        return self.marks.magic(name, rest.strip())

    def system(self, command):
        self.marks.system(command)

    def getoutput(self, command):
        return self.marks.lines(command)

    def run_cell(self, code, *ignored, **more):
        return session.run(code, f"<cell {session.count}.run>")

    def ev(self, text):
        return eval(text, self.user_ns)

    def ex(self, text):
        exec(text, self.user_ns)

    def push(self, names):
        self.user_ns.update(names)

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        setattr(self.marks, f"{magic_kind}_{magic_name or function.__name__}", function)

    def enable_gui(self, gui=None):
        pass

    enable_matplotlib = enable_gui


def get_ipython():
    return session.shell


class IPythonStandIn:
    """Finds a small IPython and IPython.display: the last finder, so that a real one goes first."""

    def find_spec(self, name, path=None, target=None):
        if name not in ("IPython", "IPython.display", "IPython.core", "IPython.core.display", "IPython.core.getipython",
                        "IPython.core.interactiveshell", "IPython.core.pylabtools"):
            return None
        import importlib.machinery
        return importlib.machinery.ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        part("ipython").fill(module)


homes = None  # by which Python finds what the user installed


def adopt_user_site():
    """pip installs into a folder of the user's, which Python looks for once, when it starts: before there is one. Here it
    takes the place that it would have had. True if it was found now."""
    global homes
    now = os.environ.get("HOME"), os.environ.get("PYTHONUSERBASE")
    if now != homes:  # a clone's are told after it was made, and a cell may have others
        homes = now
        site.USER_BASE = site.USER_SITE = None
    folder = site.getusersitepackages()
    if folder in sys.path or not site.ENABLE_USER_SITE or not os.path.isdir(folder):
        return False
    import importlib
    count = len(sys.path)
    site.addsitedir(folder)
    added = sys.path[count:]
    del sys.path[count:]
    systems = [sys.path.index(path) for path in site.getsitepackages() if path in sys.path]
    place = min(systems, default=count)
    sys.path[place:place] = added
    importlib.invalidate_caches()
    return True


class JustInstalled:
    """The last finder but one: a cell that installs something by itself imports it in the next line."""

    def find_spec(self, name, path=None, target=None):
        if path is not None or not adopt_user_site():
            return None
        import importlib.machinery
        return importlib.machinery.PathFinder.find_spec(name, None, target)


def display(*values, raw=False, display_id=None, **ignored):
    """Shows values as results, before the cell ends."""
    for value in values:
        data = {}
        if raw:
            add_bundle(data, value)
        else:
            data = look(value)
        session.send(data)
    return DisplayHandle(display_id) if display_id else None


class DisplayHandle:
    """Results are not changed once they are sent: what is new is one more."""

    def __init__(self, display_id=None):
        self.display_id = display_id

    def display(self, value, **ignored):
        display(value)

    update = display


def no_input(prompt=""):
    raise EOFError("input() is not possible: nobody is at a keyboard here. Put the values into the code.")


# ---- a context ----

def stream(fd):
    """Line by line, and not closed with the descriptor when code closes it."""
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def flush():
    for out in {sys.stdout, sys.stderr}:
        try:
            out.flush()
        except Exception:
            pass


def own_program():
    """Where a Python that does not know it was started from: children are started with it."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    names = [os.path.join(folder, "python3") for folder in folders if folder]
    return next((name for name in names if os.access(name, os.X_OK)), "/usr/bin/python3")


class Session:
    def __init__(self, channel):
        self.channel = channel
        self.count = 0
        self.id = None  # of the execution that is under way
        self.running = False  # the user's code is, or what shows its values
        self.pending = False  # interrupted where it could not be
        self.cancelled = False
        self.forked = False
        self.before = None  # is called before each cell (%autoreload)
        self.loop = self.task = None
        self.lazy = False  # the loop is made when it is asked for
        self.flags = 0
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.names.update(__builtins__=builtins, __name__="__main__")
        self.kept = sys.modules.get("__main__"), sys.stdin, sys.stdout, sys.stderr  # kept open, kept alive

    def prepare(self):
        sys.modules["__main__"] = self.module
        sys.argv = [""]
        sys.executable = sys.executable or own_program()
        own = os.path.dirname(os.path.abspath(__file__))
        sys.path[:] = [""] + [p for p in sys.path if p not in ("", own)]
        sys.stdin = None
        self.streams()
        builtins.input = no_input
        builtins.display = display
        builtins.__brig__ = self.marks = Marks(self.names)
        self.shell = Shell(self.marks)
        builtins.get_ipython = get_ipython
        default_environment()
        sys.meta_path.insert(0, ImportHook())
        sys.meta_path += [JustInstalled(), IPythonStandIn()]
        for name, hook in HOOKS.items():
            if name in sys.modules:
                hook(sys.modules[name])
        self.lazy_loop()
        os.register_at_fork(after_in_child=self.in_fork)
        set_handler(SIGINT, self.on_interrupt)

    def streams(self):
        if getattr(sys.stdin, "closed", True):  # as exit() leaves it
            sys.stdin = sys.__stdin__ = open(os.devnull, encoding="utf-8")
        for name, fd in (("stdout", 1), ("stderr", 2)):
            if getattr(getattr(sys, name), "closed", True) or self.count == 0:
                setattr(sys, name, stream(fd))
                setattr(sys, f"__{name}__", getattr(sys, name))

    def in_fork(self):
        """A child of the code's may print, and that is all: its parent speaks for the cell."""
        self.forked = True
        fds = self.channel.fd, self.channel.out
        self.channel.fd = self.channel.out = -1
        self.channel.lock = allocate_lock()
        for fd in fds:
            try:
                os.close(fd)
            except OSError:
                pass

    # An interrupt raises KeyboardInterrupt only inside the user's code: not between cells, not in the middle of a
    # frame, not in guard() itself, whose caller must go on.
    def on_interrupt(self, number, frame):
        if not self.running:
            return
        if self.channel.writer == get_ident() or frame is None or frame.f_code is Session.guard.__code__:
            self.pending = True
        elif self.task is not None and self.is_waiting():
            self.cancelled = True
            self.loop.call_soon_threadsafe(self.task.cancel)
        else:
            raise KeyboardInterrupt

    def is_waiting(self):
        """The loop runs, but none of its tasks does."""
        import asyncio
        return self.loop.is_running() and asyncio.current_task(self.loop) is None

    def check(self):
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def guard(self, work, *args):
        """(value, error) of work that may be interrupted."""
        self.pending = False
        self.running = True
        try:
            return work(*args), None
        except BaseException as error:
            return None, error
        finally:
            self.running = False

    def send(self, data, main=False):
        """A result, if there is an execution that it can belong to."""
        id = self.id
        if id is None or self.forked:
            return
        flush()
        # Another thread's may have been held up until its execution was over.
        self.channel.write({"type": "result", "id": id, "main": main, "data": fit(data)}, lambda: self.id == id)
        if self.running:
            self.check()

    # ---- one cell ----

    def execute(self, request):
        self.count += 1
        self.id = request["id"]
        self.channel.write(f'{{"type":"count","id":{self.id:d},"value":{self.count}}}')
        set_handler(SIGINT, self.on_interrupt)
        env = request.get("env")
        restore = self.set_environment(env) if env else None
        adopt_user_site()
        shown, error = self.guard(self.cell, request["code"])
        figures, late = ([], None) if isinstance(error, KeyboardInterrupt) else self.guard(self.figures)
        error = error or late
        if self.forked:
            self.end_fork(error)
        if restore:
            restore()
        self.tell(shown, figures or [], error)
        id, self.id = self.id, None
        self.channel.write(f'{{"type":"end","id":{id:d}}}')

    def tell(self, shown, figures, error):
        self.streams()
        flush()
        if shown:
            self.send(shown, True)
        for data in figures:
            self.send(data)
        if error is not None:
            self.channel.write({"type": "error", "id": self.id, **error_message(error)})
            forget(error)
        flush()

    def end_fork(self, error):
        flush()
        if error is not None and not isinstance(error, SystemExit):
            print(error_message(error)["traceback"], file=sys.stderr)
        os._exit(0 if error is None else 1)

    def set_environment(self, wanted):
        wanted = {name: value for name, value in wanted.items() if name and not {"=", "\0"} & set(name)}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update({name: value.replace("\0", "") for name, value in wanted.items()})

        def restore():
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

        return restore

    def cell(self, code):
        """Runs a cell; the data of its last expression, if it has one."""
        self.check()
        if self.before:
            self.before()
        code = tidy(code)
        if "\n" not in code.strip():
            code = self.marks.by_itself(code)
        value = self.run(code, f"<cell {self.count}>")
        if value is None:
            return None
        if not isinstance(self.names.get("_"), types.FunctionType):  # gettext's habit
            self.names["_"] = value
        return look(value)

    def figures(self):
        self.check()
        return take_figures()

    def run(self, code, filename):
        linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
        stripped = code.lstrip()
        if stripped.startswith("%%"):
            first, _, body = stripped.partition("\n")
            name, _, rest = first[2:].partition(" ")
            return self.marks.cell(name.strip(), rest.strip(), body)
        flags = self.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = parse(code, filename, flags)
        self.note_futures(tree)
        flags |= self.flags
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body.pop()
        ipython = sys.modules.get("brig_ipython")
        if ipython and ipython.InteractiveShell.ast_node_interactivity == "all":
            ipython.shown_one_by_one(tree)
        steps = [compile(tree, filename, "exec", flags, True)] if tree.body else []
        if last is not None:
            steps.append(compile(ast.Expression(last.value), filename, "eval", flags, True))
        value = self.steps(steps)
        return None if last is None or silenced(code, last) else value

    def note_futures(self, tree):
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    self.flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)

    def steps(self, steps):
        """The value of the last. A cell that awaits anywhere runs in the loop as a whole."""
        if any(code.co_flags & COROUTINE for code in steps):
            return self.wait_for(self.steps_in_loop(steps))
        if "asyncio" in sys.modules and not self.lazy:
            self.own_loop()
        value = None
        for code in steps:
            value = eval(code, self.names)
        return value

    async def steps_in_loop(self, steps):
        value = None
        for code in steps:
            value = eval(code, self.names)
            if code.co_flags & COROUTINE:
                value = await value
        return value

    def timed(self, code):
        import time
        start, before = time.perf_counter(), os.times()
        value = self.run(code, f"<cell {self.count}.time>")
        wall, after = time.perf_counter() - start, os.times()
        user, system = after.user - before.user, after.system - before.system
        print(f"CPU times: user {short_time(user)}, sys: {short_time(system)}, total: {short_time(user + system)}")
        print(f"Wall time: {short_time(wall)}")
        return value

    # ---- the event loop: one for all cells; what a cell leaves in it goes on between cells ----

    def own_loop(self):
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop

    def lazy_loop(self):
        """A loop costs three descriptors and many pages: where asyncio is loaded before anybody's code is here, it is
        made when code asks for it. (Policies end with Python 3.14; there, it is made at the first cell.)"""
        if "asyncio" not in sys.modules or sys.version_info >= (3, 14):
            return
        import asyncio
        import threading
        session = self

        class Policy(type(asyncio.get_event_loop_policy())):
            def get_event_loop(self):
                main = threading.current_thread() is threading.main_thread()
                if main and getattr(self._local, "_loop", None) is None:
                    return session.own_loop()
                return super().get_event_loop()

        asyncio.set_event_loop_policy(Policy())
        self.lazy = True

    def wait_for(self, coroutine):
        import asyncio
        loop = self.own_loop()
        self.cancelled = False
        self.task = task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if self.cancelled:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        except KeyboardInterrupt:
            self.abandon(task)
            raise
        finally:
            self.task = None

    def abandon(self, task):
        if not task.done():
            task.cancel()
            try:
                self.loop.run_until_complete(task)
            except BaseException:
                pass
        if not task.cancelled():
            task.exception()  # seen

    def idle(self):
        """Runs the loop, if there is one, until a request comes."""
        if self.loop is None or self.loop.is_closed() or self.loop.is_running():
            return
        came = self.loop.create_future()
        self.loop.add_reader(self.channel.fd, lambda: came.done() or came.set_result(None))
        try:
            self.loop.run_until_complete(came)
        except BaseException as error:
            print(error_message(error)["traceback"], file=sys.stderr)
            flush()
        finally:
            if not self.loop.is_closed():
                self.loop.remove_reader(self.channel.fd)

    def serve(self):
        version = "%d.%d.%d" % sys.version_info[:3]
        self.channel.write(f'{{"type":"ready","language":"python","version":"{version}","pid":{os.getpid()}}}')
        while True:
            self.idle()
            request = self.channel.read()
            if request is None or request.get("op") == "exit":
                return
            if request.get("op") == "execute":
                self.execute(request)


def silenced(code, node):
    """The last expression is followed by a semicolon."""
    lines = code.splitlines()
    if not 0 < node.end_lineno <= len(lines):
        return False
    rest = lines[node.end_lineno - 1].encode()[node.end_col_offset:].decode(errors="replace")
    return rest.lstrip().startswith(";")


def forget(error):
    """Lets go of the frames, and of what they hold."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


# ---- for who starts us ----

def load(name):
    try:
        load_whole(name)
    except OSError:
        with Nowhere():
            load_whole(name)


class Nowhere:
    """A template process has no folder to write to. A package that must have one to be loaded (matplotlib keeps a list of fonts) gets
    one that does not exist, and what it writes there is nothing; clones may make it."""
    FOLDER = "/tmp/"

    def __enter__(self):
        import tempfile
        self.kept = [(tempfile, "mkdtemp"), (io, "open"), (builtins, "open"), (os, "unlink")]
        self.kept = [(module, name, getattr(module, name)) for module, name in self.kept]
        opened, unlinked = io.open, os.unlink

        def is_there(path):
            return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self.FOLDER)

        def open_nothing(file, mode="r", *args, **kwargs):
            if set(mode) & set("wxa") and is_there(file):
                file, mode = os.devnull, mode.replace("x", "w")
            return opened(file, mode, *args, **kwargs)

        tempfile.mkdtemp = lambda *args, prefix="tmp", **kwargs: self.FOLDER + prefix + "cache"
        io.open = builtins.open = open_nothing
        os.unlink = lambda path, **kwargs: None if is_there(path) else unlinked(path, **kwargs)

    def __exit__(self, *_):
        import atexit
        import shutil
        for module, name, value in self.kept:
            setattr(module, name, value)
        atexit.unregister(shutil.rmtree)  # of that folder


def load_whole(name):
    """All of it or nothing: half a package would stay for all clones."""
    import importlib
    before = set(sys.modules)
    try:
        importlib.import_module(name)
    except BaseException:
        for added in set(sys.modules) - before:
            if added.partition(".")[0] == name.partition(".")[0]:
                del sys.modules[added]
        raise


def default_environment():
    """There is no screen."""
    os.environ.setdefault("MPLBACKEND", "agg")


def warm(modules):
    """Loads modules before anybody's code is here; those that are not installed are left out. Returns their names."""
    import gc
    loaded = []
    # Only here: a template remembers the environment that its clones are expected to have.
    given = os.environ.get("MPLBACKEND")
    default_environment()
    for name in ["asyncio", "subprocess", "traceback", *modules]:
        try:
            load(name)
            loaded.append(name)
        except Exception:
            continue
    try:
        rehearse_figure()
    except Exception:
        pass  # the first one of each clone then takes its time
    if given is None:
        del os.environ["MPLBACKEND"]
    gc.collect()
    gc.freeze()
    return loaded


def rehearse_figure():
    """What matplotlib does once, at its first figure: fonts are looked for and read, what draws is loaded. And whether this
    matplotlib draws the same if it is told the box that we measure."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return
    pictures = []
    try:
        for MEASURED["proven"] in (False, True):
            figure, axes = plt.subplots()
            axes.plot([1, 2], label="a")
            axes.legend()
            axes.set(title="b", xlabel="c", ylabel="d")
            pictures.append(picture(figure, "png"))
        part("charts").figure_chart(figure)
    finally:
        MEASURED["proven"] = len(pictures) == 2 and pictures[0] == pictures[1]
        plt.close("all")
        sys.modules["matplotlib.font_manager"]._get_font.cache_clear()  # fonts are open files, which no clone has


def prepare(requests, answers):
    """All that can be done before there is a channel behind these descriptors."""
    global session
    session = Session(Channel(requests, answers))
    session.prepare()


def rehearse():
    """Runs a cell that says nothing and leaves nothing: a clone's pages that every cell writes to become its own before
    somebody waits for them."""
    out, session.channel.out = session.channel.out, -1  # nothing is sent
    session.execute(DECODE(REHEARSAL, 0)[0])
    session.channel.out = out
    forget_cells()


def rehearse_often(times):
    """The same before there are clones, through a channel and back: caches are filled, and Python specialises the code
    that it has run some times."""
    channel, body = session.channel, REHEARSAL.encode()
    kept = channel.fd, channel.out
    (channel.fd, requests), (answers, channel.out) = os.pipe(), os.pipe()
    for _ in range(times):
        os.write(requests, len(body).to_bytes(4, "little") + body)
    os.close(requests)
    session.serve()
    for fd in (channel.fd, channel.out, answers):
        os.close(fd)
    channel.fd, channel.out = kept
    forget_cells()


def forget_cells():
    for number in range(session.count):
        linecache.cache.pop(f"<cell {number + 1}>", None)
    session.count = 0


def run():
    """Runs cells until the other side has no more; does not come back."""
    status = 0
    try:
        session.serve()
        import atexit
        atexit._run_exitfuncs()
    except BaseException:
        complain("the interpreter ends")
        status = 1
    flush()
    os._exit(status)


def serve(requests, answers):
    os.set_inheritable(requests, False)
    os.set_inheritable(answers, False)
    prepare(requests, answers)
    run()


if __name__ == "__main__":
    serve(3, 4)

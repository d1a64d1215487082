"""What code that was written for notebooks expects of IPython: the classes of IPython.display, rarer marks, extensions.

Loaded by python.py, whose names it has as `own`, when a cell asks for such a thing: imports IPython where that is not installed,
or uses a mark that is not there. Most cells do neither, and do not wait for it.
"""
import binascii
import html
import os
import re
import sys
import types

own = None  # python.py puts itself here


# ---- IPython.display ----

class DisplayObject:
    def __init__(self, data=None, url=None, filename=None, metadata=None, **ignored):
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data, self.url = data, url

    def _text(self):
        return self.data.decode() if isinstance(self.data, bytes) else self.data


def display_class(name, member_name):
    method = f"_repr_{member_name}_"
    return type(name, (DisplayObject,), {method: lambda self: self._text(), "__module__": "IPython.display"})


def is_address(text):
    return isinstance(text, str) and text.startswith(("http://", "https://", "data:"))


class Image(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, format=None, **ignored):
        if isinstance(data, str):
            url, filename = (data, None) if "://" in data else (None, data)
            data = None
        super().__init__(data, url, filename)

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {"text/html": f'<img src="{self.url}"/>'}
        start = bytes(self.data[:4])
        mime = "image/png" if start == b"\x89PNG" else "image/jpeg" if start[:2] == b"\xff\xd8" else None
        return {mime: self.data} if mime else {}


class Media(DisplayObject):
    """Sound and film: a file, its bytes or an address, as the element of HTML that plays it."""

    def __init__(self, data=None, filename=None, url=None, mimetype=None, **options):
        if isinstance(data, str):
            url, filename = (data, filename) if is_address(data) else (url, data)
            data = None
        if data is not None and not isinstance(data, bytes):
            raise TypeError("bytes, a file or an address is needed: samples are not turned into sound here")
        super().__init__(data, url, filename)
        self.mime = mimetype or guess(filename) or self.KIND

    def _repr_html_(self):
        source = self.url
        if self.data is not None:
            source = f"data:{self.mime};base64,{binascii.b2a_base64(self.data, newline=False).decode()}"
        return f'<{self.TAG} controls src="{html.escape(source)}"></{self.TAG}>'


class Audio(Media):
    TAG, KIND = "audio", "audio/wav"


class Video(Media):
    TAG, KIND = "video", "video/mp4"


def guess(name):
    import mimetypes
    return mimetypes.guess_type(name)[0] if name else None


class IFrame(DisplayObject):
    def __init__(self, src, width, height, **ignored):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return f'<iframe width="{self.width}" height="{self.height}" src="{self.src}" frameborder="0" allowfullscreen></iframe>'


class YouTubeVideo(IFrame):
    def __init__(self, id, width=400, height=300, **ignored):
        super().__init__(f"https://www.youtube.com/embed/{id}", width, height)


class FileLink(DisplayObject):
    def __init__(self, path, **ignored):
        self.path = str(path)

    def __repr__(self):
        return os.path.abspath(self.path)

    def _repr_html_(self):
        return f'<a href="{html.escape(self.path)}">{html.escape(self.path)}</a>'


class Plain(DisplayObject):
    """Pretty and Code: text as it is."""

    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)

    def __repr__(self):
        return self._text()


def display_kind(name):
    """display_html and its like: of raw data, or that one form of a value."""
    def show(*values, raw=False, **ignored):
        for value in values:
            data = {}
            if raw:
                own.attempt(data, name, lambda: value)
            else:
                data = {key: form for key, form in own.look(value).items() if key in (name, "text")}
            own.session.send(data)

    return show


def publish_display_data(data, metadata=None, **ignored):
    own.display(data, raw=True)


def set_matplotlib_formats(*formats, **ignored):
    own.session.marks.line_config(f"InlineBackend.figure_formats = {list(formats)}")


class InteractiveShell:
    """Where code says which expressions of a cell are shown: ast_node_interactivity is "all" or "last_expr"."""
    ast_node_interactivity = "last_expr"

    @classmethod
    def instance(cls, *ignored):
        return own.session.shell

    @classmethod
    def initialized(cls):
        return True


def fill(module):
    """What stands in a module of IPython's."""
    module.get_ipython = own.get_ipython
    module.display = own.display
    if module.__name__ == "IPython.core.pylabtools":
        module.backend2gui = {}  # matplotlib asks for it
    if module.__name__ == "IPython.core.interactiveshell":
        module.InteractiveShell = InteractiveShell
    if module.__name__ == "IPython":
        module.version_info = (8, 0, 0)
        module.__version__ = "8.0.0"
        return
    module.clear_output = lambda wait=False: None
    module.publish_display_data = publish_display_data
    module.set_matplotlib_formats = set_matplotlib_formats
    module.update_display = lambda value, *, display_id=None, **ignored: own.display(value)
    module.DisplayHandle = own.DisplayHandle
    for value in (DisplayObject, Image, Audio, Video, IFrame, YouTubeVideo, FileLink):
        setattr(module, value.__name__, value)
    for name in ("Pretty", "Code"):
        setattr(module, name, type(name, (Plain,), {"__module__": "IPython.display"}))
    for name, kind in (("HTML", "html"), ("Markdown", "markdown"), ("SVG", "svg"), ("Latex", "latex"),
                       ("Math", "latex"), ("Javascript", "javascript")):
        setattr(module, name, display_class(name, kind))
    module.JSON = type("JSON", (DisplayObject,), {"_repr_json_": lambda self: self.data})
    for name in own.MEMBERS.values():
        setattr(module, f"display_{name}", display_kind(name))


# ---- modules that are loaded again when their files have changed ----

class Reloader:
    def __init__(self):
        self.times = {}
        self.look()

    def changed(self):
        """Modules whose file is not what it was when this was asked before."""
        found = []
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not file or not file.endswith(".py") or name == "__main__":
                continue
            try:
                time = os.stat(file).st_mtime_ns
            except OSError:
                continue
            if self.times.setdefault(name, time) != time:
                found.append(module)
            self.times[name] = time
        return found

    look = changed

    def reload(self, names):
        """What cells took out of a module, they get anew."""
        import importlib
        for module in self.changed():
            before = dict(vars(module))
            try:
                importlib.reload(module)
            except Exception:
                own.complain(f"{module.__name__} cannot be loaded again")
                continue
            for name, value in list(names.items()):
                inside = getattr(value, "__name__", name)
                if before.get(inside) is value and hasattr(module, inside) and not name.startswith("__"):
                    names[name] = getattr(module, inside)


# ---- rarer marks ----

IDLE = ("alias", "autosave", "colors", "gui", "logstart", "logstop", "pdb", "precision", "rehashx", "unload_ext", "xmode")
PROGRAMS = ("conda", "cp", "ln", "mamba", "micromamba", "mkdir", "mv", "rm", "rmdir", "uv")
SCRIPTS = ("perl", "ruby")


class More:
    """Looked at where Marks has nothing of that name."""

    def __init__(self, marks):
        self.marks = marks
        self.reloader = None
        for name in PROGRAMS:
            setattr(self, f"line_{name}", lambda rest, program=name: marks.system(f"{program} {rest}"))
        for name in IDLE:
            setattr(self, f"line_{name}", lambda rest, mark=name: print(f"brig: %{mark} has no effect here", file=sys.stderr))
        for name in SCRIPTS:
            setattr(self, f"cell_{name}", lambda rest, body, program=name: marks._fed([program, *rest.split()], body))
        self.cell_file = marks.cell_writefile
        self.cell_HTML, self.cell_SVG = marks.cell_html, marks.cell_svg

    def line_sx(self, rest):
        return self.marks.lines(rest)

    line_system = line_sx

    def line_pinfo(self, rest):
        self.marks.help(rest)

    line_pdoc = line_pinfo2 = line_pinfo

    def line_reset(self, rest):
        for name in self.marks._own(""):
            del self.marks.names[name]

    def line_history(self, rest):
        import linecache
        for number in range(1, own.session.count):
            lines = linecache.cache.get(f"<cell {number}>", (0, None, []))[2]
            print("".join(lines).rstrip("\n"))

    line_hist = line_history

    def line_prun(self, rest):
        import cProfile
        cProfile.runctx(rest, self.marks.names, self.marks.names, sort="cumulative")

    def cell_prun(self, rest, body):
        self.line_prun(body)

    def line_pylab(self, rest):
        self.marks.line_matplotlib(rest)
        exec("import numpy\nimport numpy as np\nimport matplotlib.pyplot as plt\nfrom pylab import *", self.marks.names)

    def line_load_ext(self, rest):
        import importlib
        name = rest.strip()
        if name in ("autoreload", "storemagic", ""):
            return
        module = importlib.import_module(name)
        if not hasattr(module, "load_ipython_extension"):
            raise own.UsageError(f"%load_ext {name}: that module is no extension")
        module.load_ipython_extension(own.session.shell)

    line_reload_ext = line_load_ext

    def line_autoreload(self, rest):
        """0: never; now: once; anything else: before each cell."""
        word = rest.strip() or "now"
        self.reloader = self.reloader or Reloader()
        if word == "now":
            self.reloader.reload(self.marks.names)
            return
        off = word in ("0", "off")
        own.session.before = None if off else lambda: self.reloader.reload(self.marks.names)


def shown_one_by_one(tree):
    """A cell of which every expression is shown: all but the last are, where they stand."""
    import ast
    for at, node in enumerate(tree.body):
        if isinstance(node, ast.Expr):
            call = ast.Call(ast.Attribute(ast.Name("__brig__", ast.Load()), "shown", ast.Load()), [node.value], [])
            tree.body[at] = ast.copy_location(ast.Expr(call), node)
    ast.fix_missing_locations(tree)

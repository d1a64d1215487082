"""Cells of Python: values, errors, interrupts, and code that misbehaves."""
import base64
import os
import subprocess
import sys
import time

import pytest

from driverlib import DRIVERS, PATIENCE, Driver, Ended
from helpers import wait_for

PNG = b"\x89PNG\r\n"


@pytest.fixture
def driver():
    with Driver("python") as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    """For tests that leave nothing behind."""
    with Driver("python") as made:
        yield made


# ---- values ----

@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("x = 3", None), ("x = 3\nx", "3"), ("None", None), ("'it'", "it"), ("\"it's\"", "it's"),
    ("'a\\nb'", "a\\nb"), ("''", ""), ("b'x'", "b'x'"), ("1;", None), ("1; 2", "2"), ("1;  # said", None),
    ("[1,\n 2]", "[1, 2]"), ("", None), ("# nothing", None), ("def f(): return 5\nf()", "5"), ("if 1:\n  7", None),
    ("'''a\n%b\n!c'''", "a\\n%b\\n!c"), ("(5\n% 3)", "2"), ("__name__", "__main__"), ("'__file__' in globals()", "False"),
    ("import sys; sys.argv", "['']"), ("import sys; sys.path[0]", ""), ("type(_)", "<class 'str'>"),
    ("    5", "5"), ("\n\n  x = 2\n  if x:\n    x = 3\n  x", "3"), ("\tx = 4\n\tx", "4"), ("   x = 6\nx", "6"),
    ("  \n  \n7", "7"), (">>> x = 8\n>>> x", "8"), (">>> for i in (1, 2):\n...     x = i\n... \n>>> x", "2"),
    ("In [3]: x = 9\n   ...: x", "9"), ("  %pwd\n  6", "6"), ("\n\n  %%time\n1", "1"),
])
def test_value_of_the_last_expression(shared, code, text):
    done = shared.run(code)
    assert done.error is None
    assert done.text == text


def test_names_stay(driver):
    driver.run("import json\ndef f(n): return n * k\nclass C: pass")
    driver.run("k = 4")
    assert driver.run("f(2), json.dumps(1), C().__class__.__module__").text == "(8, '1', '__main__')"
    assert driver.run("import pickle; pickle.loads(pickle.dumps(C())).__class__ is C").text == "True"
    driver.run("from __future__ import annotations")
    assert driver.run("def g(a: undefined): pass\ng.__annotations__").text == "{'a': 'undefined'}"


def test_modules_of_the_folder(tmp_path):
    (tmp_path / "mine.py").write_text("value = 12")
    with Driver("python", cwd=tmp_path) as driver:
        assert driver.run("import mine; mine.value").text == "12"


@pytest.mark.parametrize("method, value, name, expected", [
    ("_repr_html_", "'<b>'", "html", "<b>"), ("_repr_markdown_", "'*a*'", "markdown", "*a*"),
    ("_repr_svg_", "'<svg/>'", "svg", "<svg/>"), ("_repr_latex_", "'$a$'", "latex", "$a$"),
    ("_repr_javascript_", "'f()'", "javascript", "f()"), ("_repr_json_", "{'a': [1]}", "json", {"a": [1]}),
    ("_repr_json_", "({'a': 1}, {})", "json", {"a": 1}), ("_repr_html_", "('<i>', {})", "html", "<i>"),
    ("_repr_png_", repr(PNG), "png", PNG), ("_repr_jpeg_", "b'\\xff\\xd8'", "jpeg", b"\xff\xd8"),
    ("_repr_pdf_", "b'%PDF'", "pdf", b"%PDF"), ("_repr_png_", repr(base64.encodebytes(PNG).decode()), "png", PNG),
    ("_repr_mimebundle_", "{'text/html': 'h', 'x/y': 1}", "html", "h"),
    ("_repr_mimebundle_", "({'image/png': b'q'}, {})", "png", b"q"),
])
def test_rich_values(shared, method, value, name, expected):
    done = shared.run(f"class R:\n  def {method}(self, **k): return {value}\n  def __repr__(self): return 'R!'\nR()")
    got = done.data[name]
    assert (base64.b64decode(got, validate=True) if isinstance(expected, bytes) else got) == expected
    assert done.text == "R!"


def test_a_rich_value_that_fails(shared):
    done = shared.run("class R:\n  def _repr_html_(self): 1/0\n  def _repr_svg_(self): return None\n"
                      "  def _repr_png_(self): return 'no base64 at all!'\n  def _repr_latex_(self): return 'l'\nR()")
    assert done.error is None
    assert set(done.data) - {"png"} == {"text", "latex"}
    assert "ZeroDivisionError" in done.err
    assert shared.run("class R:\n  def __repr__(self): 1/0\nR()").error["name"] == "ZeroDivisionError"


def test_values_that_only_pretend(shared):
    assert shared.run("from unittest.mock import MagicMock\nMagicMock(name='m')").text.startswith("<MagicMock")
    assert set(shared.run("class R:\n  def _repr_html_(self): return 'h'\nR").data) == {"text"}


@pytest.mark.parametrize("code", [
    "'a\\0b'", "'\\ud800'", "chr(0xdc00) + 'x'", "{'a': float('nan')}", "type('R', (), {'_repr_json_': lambda s: V})()",
])
def test_values_that_json_cannot_carry(shared, code):
    shared.run("V = {1: float('inf'), '1': 2**70, 'n': '\\0', (1, 2): {'\\ud800': None}}")
    assert shared.run(code).text is not None  # each frame is checked as it comes
    shared.run("deep = []\nfor _ in range(500): deep = [deep]")
    assert "json" not in shared.run("type('R', (), {'_repr_json_': lambda s: deep})()").data
    assert "json" not in shared.run("type('R', (), {'_repr_json_': lambda s: [0] * 200_000})()").data


def test_values_that_are_too_large(driver):
    done = driver.run("'é' * 5_000_000")
    assert done.text.endswith(" bytes in all)") and len(done.text.encode()) <= 1 << 20
    done = driver.run("type('R', (), {'_repr_png_': lambda s: b'x' * (20 << 20), '_repr_html_': lambda s: 'h'})()")
    assert set(done.data) == {"text", "html"}
    assert "too many to be sent" in done.err
    assert len(driver.run("raise ValueError('v' * 10**7)").error["value"]) < 64 << 10


def test_display(driver):
    done = driver.run("print('one')\ndisplay(1, 'two')\nprint('three')\n4")
    assert [d["text"] for d in done.shown] == ["1", "two"]
    assert done.text == "4" and done.out == "one\nthree\n"
    order = [f["data"]["text"] for f in done.results]
    assert order == ["1", "two", "4"]
    assert driver.run("display({'text/html': '<p>', 0: 0}, raw=True)").shown == [{"html": "<p>"}]


def test_display_of_ipython(driver, tmp_path):
    (tmp_path / "p.png").write_bytes(PNG)
    code = f"""from IPython.display import display, HTML, Markdown, Image, JSON, SVG, clear_output
display(HTML('<b>1</b>'), Markdown('*m*'), Image({str(tmp_path / 'p.png')!r}), JSON({{'a': 1}}))
clear_output()
HTML('<i>')"""
    done = driver.run(code)
    assert done.error is None, done.error["traceback"]
    first, second, third, fourth = done.shown
    assert first["html"] == "<b>1</b>" and second["markdown"] == "*m*" and fourth["json"] == {"a": 1}
    assert base64.b64decode(third["png"]) == PNG
    assert done.data["html"] == "<i>"


def test_pandas(shared):
    shared.run("import pandas as pd, numpy as np")
    done = shared.run("pd.DataFrame({'a': [1, 2], 'b': [0.5, np.nan], 'd': pd.to_datetime(['2020-01-01', '2020-01-02'])})")
    assert "<table" in done.data["html"] and "2020-01-01" in done.text
    assert done.data["data"]["a"] == [1, 2] and done.data["data"]["b"] == [0.5, None]
    assert done.data["data"]["d"][0].startswith("2020-01-01")
    assert "data" not in shared.run("pd.DataFrame(np.zeros((1000, 100)))").data
    assert shared.run("np.float64(0.5)").text == "0.5"


def png(data):
    raw = base64.b64decode(data["png"], validate=True)
    assert raw.startswith(b"\x89PNG") and len(raw) > 1000
    return raw


def test_figures(driver):
    assert driver.run("import sys; [m for m in sys.modules if m.startswith('matplotlib')]").text == "[]"
    done = driver.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([3])\nplt.show()")
    assert done.error is None and done.err == "" and done.data is None
    assert [bool(png(d)) for d in done.shown] == [True, True]
    assert done.shown[0]["text"].startswith("<Figure size")
    assert driver.run("plt.get_fignums()").text == "[]"
    done = driver.run("fig, ax = plt.subplots()\nax.bar([1], [2])\nplt.figure(); plt.plot([1]); 'said'")
    assert done.text == "said" and len([png(d) for d in done.shown]) == 2
    assert driver.run("plt.get_fignums()").text == "[]"
    assert png(driver.run("fig").data)
    assert driver.run("plt.figure(); plt.close('all')").shown == []
    done = driver.run("plt.plot([1])\n1/0")
    assert done.error and len(done.shown) == 1
    assert driver.run("from matplotlib.pyplot import show, plot\nplot([1]); show()").shown


def test_a_saved_image_is_shown(driver, tmp_path):
    path = tmp_path / "p.png"
    done = driver.run(f"from PIL import Image\nimage = Image.new('RGB', (30, 20))\nimage.save({str(path)!r})")
    assert done.error is None and done.data is None
    shown, = done.shown
    assert base64.b64decode(shown["png"]).startswith(PNG[:4]) and "30x20" in shown["text"]
    assert path.read_bytes().startswith(PNG[:4])
    done = driver.run("import io\nimage.save(io.BytesIO(), 'png')\nimage.show()")
    assert done.error is None and done.shown == [], "only what is handed over as a file"
    code = f"import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig({str(path)!r})"
    assert len(driver.run(code).shown) == 1, "a figure that is saved is shown once, as a figure"


def test_lists_and_dictionaries(shared):
    assert shared.run("[1, {'a': None, 2: 'b'}]").data["json"] == [1, {"a": None, "2": "b"}]
    assert shared.run("{'k': (1, 2)}").data["json"] == {"k": [1, 2]}
    assert "json" not in shared.run("{'k': object()}").data
    assert "json" not in shared.run("(1, 2)").data and "json" not in shared.run("5").data


def test_other_kinds_of_data(shared):
    done = shared.run("display({'application/vnd.x+json': {'a': [1]}, 'text/plain': 't'}, raw=True)")
    assert done.shown == [{"text": "t", "extra": {"application/vnd.x+json": {"a": [1]}}}]


# ---- charts ----

LABELS = {"x_label": "Time (s)", "y_label": "Force [N]", "x_unit": "s", "y_unit": "N"}
NO_LABELS = dict.fromkeys(LABELS)


@pytest.fixture(scope="module")
def plotter():
    with Driver("python") as made:
        made.run("import matplotlib.pyplot as plt, datetime as dt")
        yield made


def chart(plotter, code):
    done = plotter.run(code)
    assert done.error is None and done.err == "", (done.error, done.err)
    shown, = done.shown
    assert png(shown) and shown["text"].startswith("<Figure size")
    return shown.get("chart")


def test_chart_of_lines(plotter):
    made = chart(plotter, "plt.plot([1, 2, 4], [4, 5, 6.5], label='a')\nplt.plot([1, 2], [3, 4])\nplt.axhline(5)\n"
                          "plt.xlabel('Time (s)'); plt.ylabel('Force [N]'); plt.title('All')\nplt.show()")
    assert made["elements"] == [{"label": "a", "points": [[1, 4], [2, 5], [4, 6.5]]},
                                {"label": "Line 1", "points": [[1, 3], [2, 4]]}]
    assert (made["type"], made["title"]) == ("line", "All") and {name: made[name] for name in LABELS} == LABELS
    assert made["x_scale"] == made["y_scale"] == "linear"
    assert len(made["x_ticks"]) == len(made["x_tick_labels"]) > 2 and f"{made['x_ticks'][1]:.1f}" == made["x_tick_labels"][1]


@pytest.mark.parametrize("code, scale, first, tick", [
    ("plt.plot([dt.date(2024, 1, 1), dt.date(2024, 1, 9)], [1, 2])", "datetime", "2024-01-01", "2024-01-01T00:00:00+00:00"),
    ("plt.plot(['u', 'v', 'w'], [1, 2, 3])", "categorical", "u", 0), ("plt.plot([1, 10], [1, 2]); plt.xscale('log')", "log", 1, None),
    ("plt.plot([1, 10], [1, 2]); plt.xscale('symlog')", "symlog", 1, None),
])
def test_scales_of_charts(plotter, code, scale, first, tick):
    made = chart(plotter, code + "\nplt.show()")
    assert made["type"] == "line" and made["x_scale"] == scale and made["elements"][0]["points"][0] == [first, 1]
    assert tick is None or made["x_ticks"][0] == tick


def test_chart_of_a_series_in_time(plotter):
    chart = plotter.run("import pandas as pd\npd.Series([1, 2, 3], index=pd.date_range('2020-01-01', periods=3)).plot()\nplt.show()").shown[0]["chart"]
    assert chart["type"] == "line" and chart["x_scale"] == "datetime" and chart["x_ticks"][0] == "2020-01-01T00:00:00"
    assert chart["elements"][0]["points"][1] == ["2020-01-02T00:00:00", 2.0]


def test_chart_of_points(plotter):
    made = chart(plotter, "plt.scatter([1, 2], [3, 4], label='s')\nplt.scatter([5], [6], label='t')\nplt.yscale('log')\nplt.show()")
    assert made["type"] == "scatter" and made["y_scale"] == "log" and made["title"] is None
    assert made["elements"] == [{"label": "s", "points": [[1, 3], [2, 4]]}, {"label": "t", "points": [[5, 6]]}]


@pytest.mark.parametrize("code, labels, elements", [
    ("plt.bar(['a', 'b'], [3, 3.5], label='g'); plt.ylabel('kg (x)')", {**NO_LABELS, "y_label": "kg (x)", "y_unit": "x"},
     [("a", "g", 3), ("b", "g", 3.5)]),
    ("plt.barh(['a', 'b'], [3, 3.5]); plt.xlabel('kg (x)')", {**NO_LABELS, "y_label": "kg (x)", "y_unit": "x"},
     [("a", "Group 0", 3), ("b", "Group 0", 3.5)]),
    ("plt.bar(['a', 'b'], [2, 2])", NO_LABELS, [("a", "Group 0", 2), ("b", "Group 0", 2)]),
    ("plt.bar([1, 2, 7.25], [1, 2, 3])", NO_LABELS, [("1", "Group 0", 1), ("2", "Group 0", 2), ("7.25", "Group 0", 3)]),
    ("plt.bar([0, 1], [1, 2], 0.4, label='l'); plt.bar([0.4, 1.4], [3, 4], 0.4, label='r'); plt.xticks([0.2, 1.2], ['a', 'b'])",
     NO_LABELS, [("a", "l", 1), ("b", "l", 2), ("a", "r", 3), ("b", "r", 4)]),
])
def test_chart_of_bars(plotter, code, labels, elements):
    made = chart(plotter, code + "\nplt.show()")
    assert made.pop("type") == "bar" and made.pop("title") is None
    assert made.pop("elements") == [dict(zip(("label", "group", "value"), e)) for e in elements]
    assert made == labels


def test_chart_of_a_pie(plotter):
    made = chart(plotter, "plt.pie([1, 2, 3], labels=['x', 'y', 'z'], autopct='%d'); plt.title('P'); plt.show()")
    assert made == {"type": "pie", "title": "P", "elements": [
        {"label": "x", "angle": 60, "radius": 1}, {"label": "y", "angle": 120, "radius": 1}, {"label": "z", "angle": 180, "radius": 1}]}


@pytest.mark.parametrize("more", ["patch_artist=True", "", "patch_artist=True, vert=False", "vert=False", "showmeans=True"])
@pytest.mark.parametrize("count", [1, 2])
def test_chart_of_boxes(plotter, more, count):
    """Also where the boxes are not filled, and where they lie."""
    made = chart(plotter, f"plt.boxplot([[1, 2, 3, 4, 20], [2, 3, 4, 5, 6]][:{count}], labels=['p', 'q'][:{count}], {more})\nplt.show()")
    names = ("label", "min", "first_quartile", "median", "third_quartile", "max", "outliers")
    expected = [dict(zip(names, values)) for values in [("p", 1, 2, 3, 4, 4, [20]), ("q", 2, 3, 4, 5, 6, [])][:count]]
    assert made == {"type": "box_and_whisker", "title": None, **NO_LABELS, "elements": expected}


def test_chart_of_more_axes(plotter):
    made = chart(plotter, "fig, (a, b, c) = plt.subplots(1, 3)\na.plot([1]); b.pie([1]); c.imshow([[1]]); a.set_title('A')\n"
                          "fig.suptitle('S'); plt.show()")
    assert (made["type"], made["title"]) == ("superchart", "S")
    assert [(e["type"], e["title"]) for e in made["elements"]] == [("line", "A"), ("pie", None), ("unknown", None)]


@pytest.mark.parametrize("code, expected", [
    ("plt.figure().text(0, 0, 'only text')", None), ("plt.axes()", None), ("plt.plot(range(30_000))", None),
    ("plt.imshow([[1, 2]])", {"type": "unknown", "title": None, "elements": []}),
    ("plt.axes().add_patch(plt.Rectangle((0, 0), 1, 1))", None),
])
def test_figures_without_a_chart(plotter, code, expected):
    assert chart(plotter, code + "\nplt.show()") == expected


def test_formats_of_figures(plotter):
    try:
        shown, = plotter.run("%config InlineBackend.figure_format = 'svg'\nplt.plot([1])\nplt.show()").shown
        assert "<svg" in shown["svg"] and "png" not in shown and shown["chart"]["type"] == "line"
        shown, = plotter.run("%config InlineBackend.figure_formats = ['pdf', 'png']\nplt.plot([1])\nplt.show()").shown
        assert base64.b64decode(shown["pdf"]).startswith(b"%PDF") and png(shown)
        assert plotter.run("%config InlineBackend.figure_format = 'bmp'").error["name"] == "UsageError"
    finally:
        plotter.run("%config InlineBackend.figure_format = 'png'")


# Figures, and how often each is drawn if it is measured first: those that need not be drawn before, and those that must.
ONCE = [
    "plt.plot([1, 2], [3e9, 4e9], 'o--', label='a'); plt.legend(); plt.title('T'); plt.xlabel('x'); plt.ylabel('y'); plt.grid()",
    "plt.plot([0, 2], [0, 2], clip_on=False, marker='o', ms=40); plt.xlim(0, 1); plt.text(1.2, 1, 'out of it', rotation=30)",
    "[plt.plot([i, 2], label=f'line {i}') for i in range(3)]; plt.legend(bbox_to_anchor=(1.05, 1), loc='upper left')",
    "plt.scatter([1, 2, 3], [3, 1, 2], s=[9, 900, 5000], alpha=.5)", "plt.bar(['a', 'b', 'a long name'], [3, 4, 5]); plt.xticks(rotation=45)",
    "plt.barh(['a', 'a long name'], [3, 4])", "plt.hist([1, 2, 2, 3])", "plt.pie([1, 2], labels=['a', 'b' * 20], autopct='%d')",
    "plt.boxplot([[1, 2, 3, 9]] * 2)", "plt.imshow([[1, 2], [3, 4]]); plt.title('i')", "plt.loglog([1, 10, 1e4], [1, 3, 1e9])",
    "plt.plot([dt.date(2024, 1, 1), dt.date(2024, 3, 9)], [1, 2]); plt.gcf().autofmt_xdate()",
    "plt.plot([1, 2]); plt.twinx().plot([5e9, 1e9], 'r'); plt.title('T')", "plt.errorbar([1, 2], [3, 4], yerr=.3, capsize=4); plt.axvspan(1, 2)",
    "f, a = plt.subplots(2, 2, sharex=True); a[0, 1].plot([1]); a[1, 0].bar([1], [2]); f.suptitle('S'); f.align_ylabels(); a[0, 0].set_ylabel('y')",
    "plt.figure(figsize=(3.37, 2.11), dpi=133); plt.plot([1e-9, 2e-9]); plt.gca().spines['left'].set_position(('outward', 20))",
    "plt.fill_between([1, 2, 3], [1, 3, 2]); plt.axis('off')", "plt.figure().text(-.2, .5, 'far out')",
]
TWICE = [
    "plt.figure().add_subplot(projection='3d').plot([1, 2], [3, 4], [5, 6])", "plt.polar([1, 2], [3, 4])",
    "plt.subplots(2, 2, layout='constrained')[1][0, 0].set_ylabel('y')", "plt.subplots(2, 2, layout='tight')[1][1, 0].set_title('T')",
    "plt.scatter([0, 1], [0, 1], s=9000, clip_on=False)", "plt.plot([1, 5], [1, 2]); plt.axis('equal')",
    "plt.plot([1]); plt.annotate('hi', (0, 1), (.1, 1.2), arrowprops={})", "plt.plot([1]); plt.title('long ' * 60, wrap=True)",
    "plt.colorbar(plt.imshow([[1, 2]]))", "plt.table([['a', 'b']]); plt.axis('off')",
    "plt.plot([1], label='a'); plt.legend(bbox_to_anchor=(0, 1, 1, .2), mode='expand')",
    "plt.plot([1]); plt.gcf().canvas.mpl_connect('draw_event', lambda event: plt.title('later'))",
    "plt.plot([1]); axes = plt.gca(); axes.get_tightbbox = lambda *args, **more: axes.bbox",
]
COUNTED = """
import matplotlib.figure, sys
plt.plot([1]); plt.show()  # loads what knows of figures
def measured(yes):
    sys.modules['brig_charts'].own.MEASURED['proven'] = yes
drawings = []
def draw_counted(*args, draw=matplotlib.figure.Figure.draw):
    drawings.append(1)
    return draw(*args)
matplotlib.figure.Figure.draw = draw_counted
"""


@pytest.fixture(scope="module")
def counter():
    with Driver("python") as made:
        assert made.run("import matplotlib.pyplot as plt, datetime as dt" + COUNTED).error is None
        yield made


@pytest.mark.parametrize("code, most", [(code, 1) for code in ONCE] + [(code, 2) for code in TWICE])
def test_a_figure_that_is_measured_first_is_the_same(counter, code, most):
    """Bit by bit, and its chart; drawn once where it can be, and as often as always where it cannot."""
    made = {}
    for way in (False, True):
        done = counter.run(f"measured({way}); drawings.clear()\n{code}\nplt.show()\nlen(drawings)")
        assert done.error is None, done.error
        made[way] = [shown | {"text": ""} for shown in done.shown], done.text
    assert png(made[True][0][0])
    assert made[True][0] == made[False][0]
    assert (made[False][1], made[True][1]) == ("2", str(most))


def test_only_what_is_proven_is_measured_first(counter):
    for code, most in (("measured(True)", "1"), ("measured(False)", "2"), ("measured(True)\n%config InlineBackend.figure_format = 'retina'", "2"),
                       ("measured(True)\n%config InlineBackend.figure_format = 'svg'", "2")):
        try:
            done = counter.run(f"{code}\ndrawings.clear()\nplt.plot([1]); plt.show()\nlen(drawings)")
            assert done.shown and done.text == most, code
        finally:
            counter.run("%config InlineBackend.figure_format = 'png'")


@pytest.mark.parametrize("other, proven", [
    ("", True), ("base.print_figure = lambda *args, **more: plain(*args, pad_inches=.2 if more['bbox_inches'] == 'tight' else None, **more)", False),
])
def test_a_rehearsal_proves_it(other, proven):
    """A matplotlib that finds another box than we do is left to itself."""
    code = f"""
import importlib.util, matplotlib.backend_bases, matplotlib.figure
spec = importlib.util.spec_from_file_location("driver", {str(DRIVERS / "python.py")!r})
driver = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driver)
base = matplotlib.backend_bases.FigureCanvasBase
plain = base.print_figure
{other}
driver.warm(["matplotlib.pyplot"])
print(driver.MEASURED["proven"])
"""
    said = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert said.stdout == f"{proven}\n", said


# ---- await ----

def test_await(driver):
    assert driver.run("import asyncio\nasync def f(x):\n  await asyncio.sleep(0)\n  return x\nawait f(3)").text == "3"
    assert driver.run("y = await f(4)\nasync with asyncio.Lock(): y += 1\ny").text == "5"
    assert driver.run("[await f(i) for i in range(3)]").text == "[0, 1, 2]"
    assert driver.run("asyncio.run(f(6))").text == "6"
    assert driver.run("await f(7)").text == "7"
    assert driver.run("await asyncio.gather(f(1), f(2))").text == "[1, 2]"
    driver.run("async def bad(): raise KeyError('k')")
    done = driver.run("await bad()")
    assert done.error["name"] == "KeyError" and "Cell In[" in done.error["traceback"]
    assert "asyncio" not in done.error["traceback"]


def test_tasks_go_on_between_cells(driver):
    driver.run("import asyncio\nticks = 0\nasync def tick():\n  global ticks\n  while True:\n"
               "    ticks += 1\n    await asyncio.sleep(0.005)\ntask = asyncio.ensure_future(tick())\nawait asyncio.sleep(0)")
    first = int(driver.run("ticks").text)
    end = time.monotonic() + PATIENCE
    while int(driver.run("ticks").text) <= first + 3:
        assert time.monotonic() < end, "the task stands still"
        time.sleep(0.02)
    assert driver.run("task.cancel()").text == "True"


# ---- errors ----

def test_traceback(driver):
    driver.run("def f(a, b=1):\n    x = 1\n    return a / 0\n")
    error = driver.run("# one\nf(1)\n# three").error
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert error["traceback"].split("\n") == [
        "-" * 75, "ZeroDivisionError                         Traceback (most recent call last)",
        "Cell In[2], line 2", "      1 # one", "----> 2 f(1)", "      3 # three", "",
        "Cell In[1], line 3, in f(a, b)", "      1 def f(a, b=1):", "      2     x = 1", "----> 3     return a / 0", "",
        "ZeroDivisionError: division by zero"]


def test_traceback_of_a_library(shared):
    error = shared.run("import json\njson.loads('{')").error
    assert error["name"] == "JSONDecodeError" and "json/decoder.py" in error["traceback"]
    assert str(DRIVERS) not in error["traceback"]


def test_chained_errors(shared):
    text = shared.run("try:\n  1/0\nexcept Exception as e:\n  raise KeyError('k') from e").error["traceback"]
    assert text.index("ZeroDivisionError: ") < text.index("direct cause") < text.index("KeyError: ")
    text = shared.run("try:\n  1/0\nexcept Exception:\n  raise KeyError('k')").error["traceback"]
    assert "During handling" in text
    text = shared.run("try:\n  1/0\nexcept Exception:\n  raise KeyError('k') from None").error["traceback"]
    assert "ZeroDivision" not in text
    text = shared.run("a = ValueError(1); b = ValueError(2)\na.__cause__ = b; b.__cause__ = a\nraise a").error["traceback"]
    assert "ValueError: 2" in text


@pytest.mark.parametrize("code, name, word", [
    ("1 +", "SyntaxError", "Cell In["), ("if x:\nprint(1)", "IndentationError", "Cell In["), ("'a", "SyntaxError", "^"),
    ("return 1", "SyntaxError", "return"), ("a b\n!echo", "SyntaxError", "a b"), ("raise SystemExit(3)", "SystemExit", "3"),
    ("import sys; sys.exit('bye')", "SystemExit", "bye"), ("exit()", "SystemExit", ""), ("raise KeyboardInterrupt",
     "KeyboardInterrupt", ""), ("def r(): r()\nr()", "RecursionError", "more frames"), ("x = 'a' * 2**62", "MemoryError", ""),
    ("'(' * 1000\n" + "(" * 1000, "SyntaxError", ""), ("raise type('E', (Exception,), {'__str__': lambda s: 1/0})", "E", ""),
    ("raise BaseException('b')", "BaseException", "b"), ("input('name?')", "EOFError", "input() is not possible"),
    ("%nope 1", "UsageError", "%nope is not supported"), ("%%nope\nx", "UsageError", "%%nope is not supported"),
    ("  x = 1\n    y = 2", "IndentationError", "Cell In["), ("eval('1 +')", "SyntaxError", ""), ("a\0b", ("SyntaxError", "ValueError"), ""),
    ("import warnings; warnings.simplefilter('error'); warnings.warn('w')", "UserWarning", "w"),
])
def test_errors(shared, code, name, word):
    error = shared.run(code).error
    assert error["name"] in (name if isinstance(name, tuple) else (name,))
    assert word in error["traceback"]
    assert shared.run("import warnings; warnings.resetwarnings(); 'alive'").text == "alive"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has groups of errors")
def test_group_of_errors(shared):
    text = shared.run("raise ExceptionGroup('g', [ValueError(1), KeyError(2)])").error["traceback"]
    assert "ValueError: 1" in text and "KeyError: 2" in text


def test_errors_let_go_of_what_they_held(driver):
    driver.run("import weakref, gc\nclass Big: pass\ndef f():\n  global w\n  b = Big(); w = weakref.ref(b); 1/0")
    assert driver.run("f()").error
    assert driver.run("gc.collect(); w() is None").text == "True"


# ---- interrupts ----

@pytest.mark.parametrize("code", [
    "import time\nprint('go')\ntime.sleep(1000)", "print('go')\nwhile True: pass", "print('go')\nfor _ in iter(int, 1): pass",
    "import asyncio\nprint('go')\nawait asyncio.sleep(1000)", "print('go')\nawait asyncio.Event().wait()",
    "async def busy():\n  await asyncio.sleep(0)\n  print('go')\n  while True: pass\nawait busy()",
    "async def busy():\n  print('go')\n  while True: pass\nasyncio.ensure_future(busy())\nawait asyncio.sleep(1000)",
    "import threading\nprint('go')\nthreading.Event().wait()", "print('go')\nasyncio.run(asyncio.sleep(1000))",
    "import subprocess\nprint('go')\nsubprocess.run(['sleep', '1000'])", "print('go')\n!sleep 1000",
    "class R:\n  def __repr__(self):\n    print('go')\n    while True: pass\nR()",
    "import os\nprint('go')\nos.read(os.pipe()[0], 1)",
])
@pytest.mark.parametrize("group", [True, False], ids=["group", "process"])
def test_interrupts(shared, code, group):
    shared.run("import asyncio; kept = 5")
    done = shared.interrupted(code, group, asleep="while True" not in code and "iter(int" not in code)
    assert done.error["name"] == "KeyboardInterrupt", done.error
    assert str(DRIVERS) not in done.error["traceback"]
    done = shared.run("kept")
    assert done.text == "5" and done.error is None


def test_an_interrupt_that_is_caught(driver):
    driver.start("import time\nwhile True:\n  try:\n    print('go')\n    time.sleep(1000)\n"
                 "  except KeyboardInterrupt:\n    print('again')\n    break\n'done'")
    driver.wait_output("go")
    driver.wait_asleep()
    driver.interrupt()
    assert driver.finish().text == "done"


def test_interrupts_without_end(driver):
    """Signals at every moment: a cell ends in an error or not, frames stay whole, the context stays."""
    for i in range(60):
        driver.start("x = 1\ndisplay('y' * 1000)\nx")
        for _ in range(i % 7):
            driver.interrupt()
        done = driver.finish()
        assert done.error is None or done.error["name"] == "KeyboardInterrupt"
    done = driver.run("'alive'")
    assert (done if done.error is None else driver.run("'alive'")).text == "alive"


def test_a_handler_of_ones_own_lasts_one_cell(driver):
    driver.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert driver.interrupted("print('go')\nwhile True: pass").error["name"] == "KeyboardInterrupt"


# ---- marks ----

def test_commands(driver):
    driver.run("name = 'wor ld'")
    assert driver.run("!echo hello {name} $name $HOME").out == f"hello wor ld wor ld {os.environ['HOME']}\n"
    assert driver.run("for i in range(2):\n    !echo $i").out == "0\n1\n"
    assert driver.run("out = !printf 'a\\nb\\n'\nout").text == "['a', 'b']"
    assert driver.run("!exit 3\n_exit_code").text == "3"
    assert driver.run("!echo it's; !echo").error is None
    assert driver.run("!echo a \\\n  b").out == "a b\n"
    assert driver.run("!cat").out == ""
    assert driver.run("print('%s' % 5)\nx = 10\nx %= 4\nx").text == "2"


def test_percent(driver, tmp_path):
    assert driver.run(f"%cd {tmp_path}\n%pwd").text == str(tmp_path)
    driver.run("%env WHO=me")
    assert driver.run("!echo $WHO").out == "me\n"
    assert driver.run("%env WHO").text == "me"
    done = driver.run("%time 1 + 1")
    assert done.text == "2" and "Wall time: " in done.out
    assert "per loop" in driver.run("%timeit -n 3 -r 2 sum(range(10))").out
    assert driver.run("%matplotlib inline").error is None
    assert driver.run("%matplotlib qt").error["name"] == "UsageError"
    assert "pip" in driver.run("%pip --version").out
    done = driver.run("%%bash\necho one; cat; echo two >&2\n(exit 0)")
    assert (done.out, done.err, done.error) == ("one\n", "two\n", None)
    assert driver.run("%%bash\nexit 4").error["name"] == "CalledProcessError"
    assert driver.run("%%bash\n: " + "x" * 200_000 + "\necho long").out == "long\n"
    assert driver.run("%%writefile f.txt\nhello\n").error is None and (tmp_path / "f.txt").read_text() == "hello\n"
    assert driver.run("%%time\nz = 5\nz").text == "5"
    assert "Cell In[" in driver.run("%time 1/0").error["traceback"]
    assert driver.run("%%html\n<b>").shown == [{"html": "<b>"}]


def test_names(driver):
    assert driver.run("%who").out == "Interactive namespace is empty.\n"
    driver.run("b = [1, 2]\na = 5\n_hidden = 1")
    assert driver.run("%who").out == "a\t b\n"
    assert driver.run("%who int").out == "a\n"
    assert driver.run("%who_ls").text == "['a', 'b']"
    lines = driver.run("%whos").out.splitlines()
    assert lines[0].split() == ["Variable", "Type", "Data/Info"] and lines[2].split() == ["a", "int", "5"]


def test_more_marks(driver, tmp_path):
    (tmp_path / "s.py").write_text("import sys\nran = sys.argv[1]")
    driver.run(f"%cd {tmp_path}")
    assert driver.run("%run s.py word\nran").text == "word"
    assert driver.run("!!echo hi").text == "['hi']"
    assert driver.run("%%capture taken\nprint('in')\n5").out == ""
    assert driver.run("taken.stdout").text == "in\\n"
    assert "per loop" in driver.run("%%timeit -n 2 -r 2 k = 4\nk * 2").out
    assert driver.run("%timeit -x 1").error["name"] == "UsageError"
    assert driver.run("%%script cat\nfed\n").out == "fed\n"
    assert driver.run("%%python3\nprint(7)").out == "7\n"
    assert driver.run("%%latex\n$a$").shown == [{"latex": "$a$"}] and driver.run("%%svg\n<svg/>").shown == [{"svg": "<svg/>"}]
    assert driver.run("%%javascript\nf()").shown == [{"javascript": "f()"}]
    assert "%pip" in driver.run("%lsmagic").out
    assert "number of items" in driver.run("len?").out and "number of items" in driver.run("?len").out
    assert driver.run("nothing_like_it?").error["name"] == "NameError"


def test_marks_without_a_mark(driver, tmp_path):
    """A cell of one line that begins with the name of one, as in IPython; where the name means something else it does."""
    (tmp_path / "here").write_text("x")
    driver.run(f"cd {tmp_path}")
    assert driver.run("pwd").text == str(tmp_path) and driver.run("ls").out == "here\n"
    assert driver.run("pip --version").out.startswith("pip ") and driver.run("  mkdir made").error is None
    assert driver.run("cd -").error is None and driver.run("cd -").out == f"{tmp_path}\n"
    assert driver.run("ls = 5").error is None and driver.run("ls").text == "5" and driver.run("ls -3").text == "2"
    assert driver.run("env: int = 7").error is None and driver.run("env").text == "7"
    assert driver.run("pwd\npwd").error["name"] == "NameError", "one line, as in IPython"
    assert driver.run("nonesuch word").error["name"] == "SyntaxError" and driver.run("nonesuch").error["name"] == "NameError"


def test_rarer_marks(driver, tmp_path):
    driver.run(f"%cd {tmp_path}")
    assert driver.run("x = %sx printf 'a\\nb'\nx.s, x.n").text == "('a b', 'a\\nb')"
    assert driver.run("%%file 'two words'\nhi\n").error is None and (tmp_path / "two words").read_text() == "hi\n"
    assert driver.run("%%bash --out said --no-raise-error\necho kept; exit 3").out == "" and driver.run("said, _exit_code").text == "('kept\\n', 3)"
    assert driver.run("%%bash -s one two\necho $2").out == "two\n"
    assert driver.run("%%bash --bg\nsleep 1").error["name"] == "UsageError"
    assert driver.run("%%perl\nprint 5").out == "5" and driver.run("%%HTML\n<i>").shown == [{"html": "<i>"}]
    assert driver.run("%%capture both\nprint(1)\n!echo 2; echo 3 >&2").out == "" and driver.run("both.stdout, both.stderr").text == "('1\\n2\\n', '3\\n')"
    assert driver.run("%timeit -q -o pass").data["text"].startswith("namespace(best=")
    done = driver.run("%config Completer.use_jedi = False\n%xmode Plain")
    assert done.error is None and done.err.count("has no effect here") == 2
    assert "%%capture both" in driver.run("%history").out
    driver.run("kept = 1")
    assert driver.run("%reset -f\nkept").error["name"] == "NameError"
    assert driver.run("%nonesuch").error["name"] == "UsageError" and "%autoreload" in driver.run("%lsmagic").out


def test_extensions(driver, tmp_path):
    driver.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True")
    module = tmp_path / "changing.py"
    module.write_text("def f(): return 1\n")
    driver.run("%load_ext autoreload\n%autoreload 2\nimport changing\nfrom changing import f")
    assert driver.run("f(), changing.f()").text == "(1, 1)"
    module.write_text("def f(): return 22\n")
    os.utime(module, (1, 1))
    assert driver.run("f(), changing.f()").text == "(22, 22)"
    module.write_text("def f(: nonsense\n")
    os.utime(module, (2, 2))
    done = driver.run("f()")
    assert done.text == "22" and "changing cannot be loaded again" in done.err
    (tmp_path / "own_ext.py").write_text("def load_ipython_extension(shell): shell.push({'loaded': 1})\n")
    assert driver.run("%load_ext own_ext\nloaded").text == "1"
    assert driver.run("%load_ext nonesuch_ext").error["name"] == "ModuleNotFoundError"


def test_more_of_ipython(driver, tmp_path):
    (tmp_path / "s.wav").write_bytes(b"RIFF")
    done = driver.run(f"from IPython.display import Audio, Video, Code, Pretty, FileLink, YouTubeVideo\nAudio({str(tmp_path / 's.wav')!r})")
    assert done.error is None and done.data["html"].startswith('<audio controls src="data:audio/')
    assert driver.run("Video('https://a.test/x.mp4?a=\"')").data["html"] == '<video controls src="https://a.test/x.mp4?a=&quot;"></video>'
    assert driver.run("Code('x = 1')").text == "x = 1"
    assert driver.run("h = display(1, display_id=True)\nh.update(2)").shown == [{"text": "1"}, {"text": "2"}]
    every = "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = 'all'"
    driver.run(every)
    done = driver.run("1\nNone\n'two'\n3")
    assert [s["text"] for s in done.shown] == ["1", "two"] and done.text == "3"
    assert driver.run("%config InteractiveShell.ast_node_interactivity = 'last_expr'\n1\n2").error is None
    assert driver.run("1\n2").shown == []


def test_exit_leaves_the_context_whole(driver):
    assert driver.run("exit()").error["name"] == "SystemExit" and driver.run("quit(3)").error["value"] == "3"
    assert "number of items" in driver.run("help(len)").out
    assert driver.run("import sys; sys.stdin.read()").text == ""


def test_get_ipython(driver):
    assert driver.run("import os\nget_ipython().run_line_magic('pwd', '') == os.getcwd()").text == "True"
    assert driver.run("from IPython import get_ipython as g\ng() is get_ipython()").text == "True"
    assert driver.run("get_ipython().user_ns is globals()").text == "True"
    assert driver.run("get_ipython().system('echo said')").out == "said\n"
    assert driver.run("get_ipython().getoutput('echo got')").text == "['got']"
    assert driver.run("get_ipython().run_cell_magic('bash', '', 'echo cell')").out == "cell\n"
    assert driver.run("get_ipython().run_cell('made = 6')\nmade").text == "6"
    assert driver.run("def up(line): return line.upper()\nget_ipython().register_magic_function(up)\n%up word").text == "WORD"
    # matplotlib asks IPython, if that is loaded, how it is to be shown.
    assert driver.run("import IPython.display\nimport matplotlib.pyplot as plt\nplt.ion(); plt.plot([1]); plt.show()").shown


# ---- output ----

def test_output_of_all_kinds(driver):
    code = """import os, subprocess, sys, threading, ctypes
print('print')
os.write(1, b'write\\n')
subprocess.run(['echo', 'child'])
os.system('echo system')
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
if os.fork() == 0:
    print('forked')
    os._exit(0)
os.wait()
print('err', file=sys.stderr)
sys.stdout.write('no newline')"""
    done = driver.run(code)
    assert done.out == "print\nwrite\nchild\nsystem\nthread\nforked\nno newline"
    assert done.err == "err\n"
    assert driver.run("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as o: print(1)\no.getvalue()"
                      ).text == "1\\n"


def test_a_fork_that_comes_back(driver):
    done = driver.run("import os\npid = os.fork()\nprint('parent' if pid else 'child')\nif pid: os.waitpid(pid, 0)\n'end'")
    assert sorted(done.out.split()) == ["child", "parent"] and done.text == "end"
    assert len(done.results) == 1
    done = driver.run("import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as p: r = p.map(abs, [-1, -2])\nr")
    assert done.text == "[1, 2]"
    done = driver.run("pid = os.fork()\nif pid == 0: 1/0\nos.waitpid(pid, 0)[1] >> 8")
    assert done.text == "1" and "ZeroDivisionError" in done.err


def test_text_that_is_no_text(driver):
    assert driver.run("print('\\ud800')").out == "\\ud800\n"
    done = driver.run("import sys; sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()")
    assert done.out == "\ufffd\n" and done.error is None


def test_closed_streams_are_opened_again(driver):
    driver.run("import sys\nsys.stdout.close(); sys.stderr.close()")
    done = driver.run("print('here'); print('there', file=sys.stderr)")
    assert (done.out, done.err) == ("here\n", "there\n")
    driver.run("sys.stdout = None")
    assert driver.run("print('again')").out == "again\n"


def test_display_after_the_end_is_dropped(driver, tmp_path):
    """Between two cells, and not in the next one either."""
    go, shown = tmp_path / "go", tmp_path / "shown"
    driver.run(f"import os, threading, time\ndef late():\n  while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
               f"  display('late')\n  open({str(shown)!r}, 'w').close()\nthreading.Thread(target=late).start()")
    go.touch()
    wait_for(shown.exists, PATIENCE, "the end of what shows it")
    done = driver.run("1")
    assert done.text == "1" and done.shown == []
    done = driver.run("t = threading.Thread(target=display, args=('early',)); t.start(); t.join(); 2")
    assert [d["text"] for d in done.shown] == ["early"], "the control"


def test_display_that_is_under_way_at_the_end_is_dropped(driver, tmp_path):
    """The thread that shows it is held up where it writes out what was printed before, and the cell ends meanwhile."""
    go, shown = tmp_path / "go", tmp_path / "shown"
    driver.run(f"""import os, sys, threading, time
begun = threading.Event()
class Slow:
    closed = False
    def __init__(self, stream): self.stream = stream
    def __getattr__(self, name): return getattr(self.stream, name)
    def flush(self):
        self.stream.flush()
        if threading.current_thread() is late:
            begun.set()
            while not os.path.exists({str(go)!r}): time.sleep(0.01)
def show():
    display('late')
    open({str(shown)!r}, 'w').close()
sys.stdout = Slow(sys.stdout)
late = threading.Thread(target=show)
late.start()
begun.wait()""")
    go.touch()
    wait_for(shown.exists, PATIENCE, "the end of what shows it")
    done = driver.run("1")
    assert done.text == "1" and done.shown == []


# ---- code that misbehaves: the context may die, and that is all ----

def test_channel_closed_by_the_code(driver):
    driver.start("import os; os.close(3)")
    assert driver.ends() == 1


def test_process_ended_by_the_code(driver):
    driver.start("import os; os._exit(7)")
    assert driver.ends() == 7


def test_process_killed_by_the_code(driver):
    driver.start("import os; os.kill(os.getpid(), 9)")
    assert driver.ends() == -9


def test_nonsense_on_the_channel(driver):
    driver.start("import os; os.write(4, b'\\xff\\xff\\xff\\xff' * 4)")
    with pytest.raises(AssertionError, match="a frame of 4294967295 bytes"):
        driver.finish()


def test_the_driver_taken_apart(driver):
    """Code has the driver in its hands; at worst it has no driver afterwards."""
    driver.start("import builtins, sys, gc\nfor o in gc.get_objects():\n"
                 "  if type(o).__name__ == 'Session': o.__dict__.clear()\nbuiltins.__dict__.pop('repr', None)")
    with pytest.raises((Ended, AssertionError)):
        while True:
            driver.finish()
            driver.start("1")


# ---- template processes ----

TEMPLATE = """
import importlib.util, json, os, struct, sys
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("driver", sys.argv[1])
driver = importlib.util.module_from_spec(spec)
before = (sys.stdout, sys.argv[:], sys.path[:], dict(os.environ), sys.modules["__main__"], sys.meta_path[:])
spec.loader.exec_module(driver)
after = (sys.stdout, sys.argv[:], sys.path[:], dict(os.environ), sys.modules["__main__"], sys.meta_path[:])
assert before == after, "importing it has effects"
assert not {"asyncio", "subprocess"} & set(sys.modules), "importing it loads much"
loaded = driver.warm(["numpy", "no_such_module"])
assert "numpy" in loaded and "no_such_module" not in loaded and "numpy" in sys.modules
assert driver.warm(["half.broken"])[-1] == "traceback" and "half" not in sys.modules, "half a package stays"
(asked, requests), (answers, said) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(requests), os.close(answers)
    driver.serve(asked, said)
os.close(asked), os.close(said)
answers = os.fdopen(answers, "rb")

def hear():
    return json.loads(answers.read(struct.unpack("<I", answers.read(4))[0]))

assert hear()["type"] == "ready"
body = json.dumps({"op": "execute", "id": 1, "code": "import sys; 'numpy' in sys.modules, __name__", "env": {}}).encode()
os.write(requests, struct.pack("<I", len(body)) + body)
assert hear()["type"] == "count"
print(hear()["data"]["text"])
"""


def test_a_process_that_is_warm_already(tmp_path):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "__init__.py").write_text("")
    (tmp_path / "half" / "broken.py").write_text("1/0")
    done = subprocess.run(["/usr/bin/python3", "-c", TEMPLATE, str(DRIVERS / "python.py")], capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "(True, '__main__')\n", done.stderr

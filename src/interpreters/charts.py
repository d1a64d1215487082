"""What a figure of matplotlib's shows, as data: kind, axes and values of each chart in it. And whether it must be drawn once
before it can be measured.

Loaded by python.py when a figure is sent. Only what matplotlib itself has in its objects is read: a figure that is made
of other things is "unknown", and has no elements. matplotlib is never imported from here.
"""
import math
import re
import sys
from datetime import date

POINTS_MAX = 20_000  # of one line or cloud
UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def kind(module, name):
    """A class of matplotlib's; one that is no object's if that part is not loaded."""
    return getattr(sys.modules.get("matplotlib." + module), name, ())


def number(value):
    """As JSON has it; None for what is no number."""
    value = float(value)
    return value if math.isfinite(value) else None


def rounded(value, digits=12):
    """Without what only computing made of it."""
    value = number(value)
    return value and float(f"{value:.{digits}g}")


def place(value):
    """A coordinate: a number, a moment as text, or the name of a category."""
    if isinstance(value, date):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    if hasattr(value, "to_timestamp"):  # a period of pandas'
        return value.to_timestamp().isoformat()
    if isinstance(value, str):
        return str(value)
    try:
        return number(value)
    except (TypeError, ValueError):
        return str(value)


def text(value):
    return str(value) or None


def unit(label):
    found = UNIT.search(label or "")
    return (found[1] or found[2]) if found else None


# ---- axes ----

def labels(axes):
    names = {"x_label": text(axes.get_xlabel()), "y_label": text(axes.get_ylabel())}
    return {**names, "x_unit": unit(names["x_label"]), "y_unit": unit(names["y_label"])}


def turned(block):
    """Of a chart whose bars or boxes lie."""
    other = {"x": "y", "y": "x"}
    return {other[name[0]] + name[1:]: value for name, value in block.items()}


def frequency(axis):
    """Of an axis that pandas draws a series of regular moments on: its places are numbers of periods."""
    pandas = sys.modules.get("pandas")
    freq = getattr(axis.axes, "freq", None) if pandas and axis is axis.axes.xaxis else None
    return freq if freq is not None and isinstance(first_place(axis.axes), pandas.Period) else None


def first_place(axes):
    return next((x for line in axes.get_lines() for x in line.get_xdata(orig=True)[:1]), None)


def is_of_dates(axis):
    if frequency(axis) is not None:
        return True
    dates = sys.modules.get("matplotlib.dates")
    if dates is None:
        return False
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return isinstance(converter, (dates.DateConverter, getattr(dates, "_SwitchableDateConverter", ())))


def tick_texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def scale(axis, ticks, texts):
    if is_of_dates(axis):
        return "datetime"
    if axis.get_scale() != "linear":
        return axis.get_scale()
    counted = bool(ticks) and all(tick == at for at, tick in enumerate(ticks))
    named = all(word != str(at) for at, word in enumerate(texts))
    return "categorical" if counted and named and len(texts) == len(ticks) else "linear"


def ticks_of(axis):
    places = axis.get_ticklocs()
    if not is_of_dates(axis):
        return [number(at) for at in places]
    freq = frequency(axis)
    if freq is not None:
        period = sys.modules["pandas"].Period
        return [period(ordinal=int(at), freq=freq).to_timestamp().isoformat() for at in places]
    dates = sys.modules["matplotlib.dates"]
    return [moment.isoformat() for moment in dates.num2date(places)]


def axis_block(name, axis):
    ticks, texts = ticks_of(axis), tick_texts(axis)
    return {f"{name}_ticks": ticks, f"{name}_tick_labels": texts, f"{name}_scale": scale(axis, ticks, texts)}


def axes_block(axes):
    return {**labels(axes), **axis_block("x", axes.xaxis), **axis_block("y", axes.yaxis)}


# ---- one kind each ----

def points(xs, ys):
    if len(xs) > POINTS_MAX:
        raise ValueError("too many points")
    return [[place(x), place(y)] for x, y in zip(xs, ys)]


def is_guide(artist):
    """A line from edge to edge, as axhline draws it."""
    if not isinstance(artist, kind("lines", "Line2D")):
        return False
    xs, ys = list(artist.get_xdata()), list(artist.get_ydata())
    return len(xs) == len(ys) == 2 and (xs[0] == xs[1] or ys[0] == ys[1])


def line_chart(axes, artists):
    elements = []
    for line in artists:
        if is_guide(line):
            continue
        label = str(line.get_label())
        own = re.fullmatch(r"_(?:child|line)(\d+)", label)
        elements.append({"label": f"Line {own[1]}" if own else label,
                         "points": points(line.get_xdata(orig=True), line.get_ydata(orig=True))})
    return {"type": "line", **axes_block(axes), "elements": elements}


def scatter_chart(axes, artists):
    elements = [{"label": str(cloud.get_label()), "points": points(*zip(*cloud.get_offsets().tolist()))}
                for cloud in artists if len(cloud.get_offsets())]
    return {"type": "scatter", **axes_block(axes), "elements": elements}


def bar_labels(axis, group, lie):
    """The names of the ticks where each bar has one; else the tick at the bar's place, or the place itself."""
    texts, ticks = tick_texts(axis), [float(at) for at in axis.get_ticklocs()]
    if len(texts) == len(group):
        return texts
    found = []
    for bar in group:
        start, width = (bar.get_y(), bar.get_height()) if lie else (bar.get_x(), bar.get_width())
        at = start + width / 2
        near = [word for tick, word in zip(ticks, texts) if word and abs(tick - at) <= abs(width) / 1000]
        found.append(near[0] if near else f"{at:.6g}")
    return found


def bars_lie(groups):
    way = getattr(groups[0], "orientation", None)
    bars = [bar for group in groups for bar in group]
    return way == "horizontal" if way else len(bars) > 1 and len({bar.get_height() for bar in bars}) == 1


def bar_chart(axes, artists):
    groups = [group for group in axes.containers if isinstance(group, kind("container", "BarContainer")) and len(group)]
    if not groups:
        raise ValueError("rectangles that are no bars")
    lie = bars_lie(groups)
    elements = []
    for group in groups:
        own = re.fullmatch(r"_container(\d+)", str(group.get_label()))
        name = f"Group {own[1]}" if own else str(group.get_label())
        for label, bar in zip(bar_labels(axes.yaxis if lie else axes.xaxis, group, lie), group):
            elements.append({"label": label, "group": name, "value": number(bar.get_width() if lie else bar.get_height())})
    return {"type": "bar", **(turned(labels(axes)) if lie else labels(axes)), "elements": elements}


def pie_chart(axes, artists):
    elements = [{"label": str(wedge.get_label()), "angle": rounded(abs(wedge.theta2 - wedge.theta1), 7),  # of 32 bits
                 "radius": rounded(wedge.r)} for wedge in artists]
    return {"type": "pie", "elements": elements}


class Box:
    """One box, and what lies in its span: across is the axis of the names, along that of the values."""

    def __init__(self, bounds, lie):
        (self.first, self.last), (self.low, self.high) = (bounds[2:], bounds[:2]) if lie else (bounds[:2], bounds[2:])
        self.lie = lie
        self.least, self.most = self.low, self.high
        self.median, self.width = self.low, 0.0
        self.marks = []

    def take(self, line):
        along, across = (line.get_xdata(), line.get_ydata()) if self.lie else (line.get_ydata(), line.get_xdata())
        along, across = [float(value) for value in along], [float(value) for value in across]
        if not across or min(across) < self.first or max(across) > self.last:
            return
        if line.get_linestyle() == "None" or len(along) == 1:
            self.marks = along  # means, if they are drawn, come before the outliers
        elif len(along) == 2:
            self.take_line(along, max(across) - min(across))

    def take_line(self, along, width):
        if along[0] == along[1]:
            # A cap may lie on the edge of its box; the median is the line from side to side.
            if self.low <= along[0] <= self.high and width > self.width:
                self.median, self.width = along[0], width
        elif self.low in along and min(along) < self.low:
            self.least = min(along)
        elif self.high in along and max(along) > self.high:
            self.most = max(along)

    def element(self, label):
        values = zip(("min", "first_quartile", "median", "third_quartile", "max"),
                     (self.least, self.low, self.median, self.high, self.most))
        outliers = [rounded(mark) for mark in self.marks if not self.least <= mark <= self.most]
        return {"label": label, **{name: rounded(value) for name, value in values}, "outliers": outliers}


def outline(artist):
    """(x0, x1, y0, y1) of what may be a box: a patch, or a closed line with four straight sides."""
    if isinstance(artist, kind("patches", "PathPatch")):
        bounds = artist.get_path().get_extents()
        return float(bounds.x0), float(bounds.x1), float(bounds.y0), float(bounds.y1)
    xs, ys = list(artist.get_xdata()), list(artist.get_ydata())
    if len(xs) != 5 or (xs[0], ys[0]) != (xs[4], ys[4]) or len(set(xs)) != 2 or len(set(ys)) != 2:
        return None
    return float(min(xs)), float(max(xs)), float(min(ys)), float(max(ys))


def whisker_lies(line, bounds):
    """Does this line leave the box sideways? None: it does not leave it."""
    xs, ys = [float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()]
    x0, x1, y0, y1 = bounds
    if ys[0] == ys[1] and y0 < ys[0] < y1 and (x0 in xs or x1 in xs) and (min(xs) < x0 or max(xs) > x1):
        return True
    if xs[0] == xs[1] and x0 < xs[0] < x1 and (y0 in ys or y1 in ys) and (min(ys) < y0 or max(ys) > y1):
        return False
    return None


def boxes_lie(lines, outlines):
    for line in lines:
        for bounds in outlines:
            lies = whisker_lies(line, bounds)
            if lies is not None:
                return lies
    return len({rounded(y1 - y0) for _, _, y0, y1 in outlines}) == 1 < len(outlines)


def box_chart(axes, artists):
    lines = [artist for artist in artists if isinstance(artist, kind("lines", "Line2D"))]
    outlines = [bounds for bounds in map(outline, artists) if bounds]
    lie = boxes_lie([line for line in lines if is_guide(line)], outlines)
    boxes = [Box(bounds, lie) for bounds in outlines]
    for line in lines:
        if outline(line) is None:
            for box in boxes:
                box.take(line)
    texts = tick_texts(axes.yaxis if lie else axes.xaxis)
    return {"type": "box_and_whisker", **(turned(labels(axes)) if lie else labels(axes)),
            "elements": [box.element(label) for label, box in zip(texts, boxes)]}


def are_boxes(lines):
    """matplotlib draws boxes that are not filled as lines: an outline, two whiskers and a median each, at least."""
    count = sum(outline(line) is not None for line in lines)
    return count > 0 and sum(map(is_guide, lines)) >= 3 * count


# ---- which kind ----

def all_are(artists, *kinds):
    return bool(artists) and all(isinstance(artist, kinds) for artist in artists)


def chart_of(axes):
    """None: there is nothing in these axes."""
    artists = [a for a in axes._children if not isinstance(a, kind("text", "Text"))]
    if not artists:
        return None
    line, path = kind("lines", "Line2D"), kind("patches", "PathPatch")
    rest = [artist for artist in artists if not is_guide(artist)]
    if all_are(artists, line) and not are_boxes(artists):
        found = line_chart(axes, artists)
    elif all_are(artists, line, path) or all_are(artists, line) and are_boxes(artists):
        found = box_chart(axes, artists)
    elif all_are(rest, kind("collections", "PathCollection")):
        found = scatter_chart(axes, rest)
    elif all_are(rest, kind("patches", "Wedge")):
        found = pie_chart(axes, rest)
    elif all_are(rest, kind("patches", "Rectangle")):
        found = bar_chart(axes, rest)
    else:
        found = {"type": "unknown", "elements": []}
    return {"title": text(axes.get_title()), **found}


def part_of(axes):
    """One of several: what cannot be read does not take the others along."""
    try:
        return chart_of(axes)
    except Exception:
        return {"type": "unknown", "title": text(axes.get_title()), "elements": []}


def figure_chart(figure):
    """The chart of a figure, {} if there is none in it."""
    if len(figure.axes) == 1:
        return chart_of(figure.axes[0]) or {}
    charts = [chart for chart in map(part_of, figure.axes) if chart]
    if not charts:
        return {}
    title = getattr(figure, "_suptitle", None)
    return {"type": "superchart", "title": title.get_text() if title else "", "elements": charts}


# ---- which can be measured before they were drawn ----

# What has its place without having been drawn. Classes that are made of these are not meant: they may draw differently.
SETTLED = {"lines": ("Line2D",), "text": ("Text",), "spines": ("Spine",), "legend": ("Legend",),
           "patches": ("Rectangle", "Wedge", "Polygon", "StepPatch")}
# What has not, but counts for nothing where it is clipped to its axes, which are measured themselves. (The points of a cloud
# get their size when they are drawn.)
CLIPPED = {"collections": ("PathCollection", "LineCollection", "PolyCollection", "FillBetweenPolyCollection"), "image": ("AxesImage",),
           "patches": ("PathPatch",)}
OWN_WAYS = {"draw", "get_tightbbox", "apply_aspect"}


def kinds(table):
    return {kind(module, name) for module, names in table.items() for name in names}


def is_drawn_as_usual(value, usual):
    return not OWN_WAYS & vars(value).keys() and all(getattr(type(value), way, None) is getattr(usual, way, None) for way in OWN_WAYS)


def artist_is_settled(artist, axes, settled, clipped):
    own = type(artist)
    if OWN_WAYS & vars(artist).keys() or artist.get_animated():
        return False
    if own in clipped:
        box = artist.get_clip_box() if artist.get_clip_on() else None
        return box is not None and box.extents.tolist() == axes.bbox.extents.tolist()
    if own is kind("text", "Text") and artist.get_wrap():
        return False
    if own is kind("legend", "Legend") and getattr(artist, "_mode", "expand") == "expand":
        return False  # it gets its width when it is drawn
    return own in settled


def axes_are_settled(axes, alone, settled, clipped):
    if axes.name != "rectilinear" or not is_drawn_as_usual(axes, kind("axes", "Axes")) or axes.get_axes_locator() is not None:
        return False
    # Limits that follow from the shape may change with each drawing; what is next to such axes, with them.
    if axes.get_aspect() != "auto" and (not alone or axes.get_adjustable() != "box"):
        return False
    own = (axes.xaxis, kind("axis", "XAxis")), (axes.yaxis, kind("axis", "YAxis"))
    if any(type(axis) is not usual or OWN_WAYS & vars(axis).keys() or axis.label.get_wrap() for axis, usual in own):
        return False
    return all(artist_is_settled(artist, axes, settled, clipped) for artist in axes.get_children()
               if artist is not axes.xaxis and artist is not axes.yaxis)


def is_settled(figure):
    """Does all of it lie where it will lie once it was drawn? True only where that is known: stock axes and artists, no
    layout engine, nobody who listens to drawing."""
    canvas, axes = figure.canvas, figure.axes
    if type(canvas) is not kind("backends.backend_agg", "FigureCanvasAgg") or OWN_WAYS & vars(canvas).keys():
        return False
    if type(figure) is not kind("figure", "Figure") or OWN_WAYS & vars(figure).keys() or figure.get_layout_engine() is not None:
        return False
    if canvas.callbacks.callbacks.get("draw_event"):
        return False
    settled, clipped = kinds(SETTLED), kinds(CLIPPED)
    others = [artist for artist in figure.get_children() if artist not in axes]
    return (all(artist_is_settled(artist, None, settled, set()) for artist in others) and
            all(axes_are_settled(one, len(axes) == 1, settled, clipped) for one in axes))

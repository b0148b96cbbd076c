# SPDX-License-Identifier: BSD-3-Clause
# Charts with matplotlib. Curves differ in colour (Okabe and Ito's palette, safe for colour-blind readers), marker and
# dash, so that they are also distinguishable in print.
import io
import math
import textwrap

from weft_mpi import output, result

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
HATCHES = ("", "//", "..", "xx", "\\\\")
DASHES = ("-", "--", "-.", ":")
SIZE = (5.2, 3.3)  # inches without the legend; on the screen of a telephone, text keeps three quarters of its size
LINE = 0.17  # inches of a line of a legend
LABEL = 58  # characters in a line of a legend
TITLE = 48  # characters in a line of a title, or of the labels of an axis
TICKS = 11  # steps between the labels of an axis
ROWS, LOW_ROWS = 40, 12  # labels of the rows of a timeline, and how many need no higher figure
FORMATS = ("png", "svg", "pdf")


def require():
    """Returns matplotlib's pyplot. Raises Refusal if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise output.Refusal(
            "charts need matplotlib: python3 -m pip install matplotlib, or the package python3-matplotlib"
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "weft", "font.family": "sans-serif"})
    import matplotlib.pyplot

    return matplotlib.pyplot


def style(at):
    return {"color": PALETTE[at % len(PALETTE)], "marker": MARKERS[at % len(MARKERS)], "markersize": 4.5,
            "linestyle": DASHES[(at // 2) % len(DASHES)], "linewidth": 1.6}  # fmt: skip


def draw(axes, title, labels, series, own=None, logarithmic=True):
    """Draws `series`, {label: [(x, y)]}. `labels`: of the axes. Curves after the first `own` are thin references."""
    for at, (label, points) in enumerate(series.items()):
        points = [point for point in points if point[1] > 0 and (point[0] > 0 or not logarithmic)]
        look = style(at)
        if own is not None and at >= own:
            look.update(linewidth=0.8, markersize=2.5, alpha=0.9)
        axes.plot([x for x, _ in points], [y for _, y in points], label=shortened(label), **look)
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = spaced(sorted({x for points in series.values() for x, _ in points if x > 0}))
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
        axes.minorticks_off()
    axes.set(title=wrapped(title), xlabel=labels[0], ylabel=labels[1])
    axes.grid(True, which="major", linewidth=0.5, alpha=0.5)
    if series:
        legend(axes)


def spaced(ticks):
    """Returns those of the ascending ticks of a logarithmic axis whose labels do not overlap."""
    if not ticks:
        return []
    step, found = math.log2(ticks[-1] / ticks[0]) / TICKS, ticks[:1]
    for tick in ticks[1:]:
        if math.log2(tick / found[-1]) >= step:
            found.append(tick)
    return found


def wrapped(title):
    return textwrap.fill(title, TITLE, break_on_hyphens=False)


def shortened(label):
    """Returns a label for a legend, in at most two lines."""
    return textwrap.fill(label, LABEL, max_lines=2, break_on_hyphens=False, placeholder=" ...")


def columns_for(labels):
    """Returns how many columns of a legend fit beside each other."""
    return max(1, min(3, LABEL // (max(map(len, labels)) + 5)))


def legend(axes, columns=1):
    """Adds the legend below the axes' label. The figure becomes higher by its lines, and the axes keep their size."""
    below = (0.5, -0.5 / SIZE[1])
    made = axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=below, ncols=columns)
    lines = sum(text.get_text().count("\n") + 1 for text in made.get_texts()) / columns
    axes.figure.set_figheight(axes.figure.get_figheight() + LINE * lines)


def figure_of(drawing):
    """Returns a figure with one pair of axes, drawn by `drawing(axes)`."""
    plot = require()
    figure, axes = plot.subplots(figsize=SIZE, layout="constrained")
    drawing(axes)
    return figure


def stacked(drawings):
    """Returns the bytes of a PNG with several charts stacked vertically."""
    plot = require()
    figure, axes = plot.subplots(len(drawings), figsize=(SIZE[0], SIZE[1] * len(drawings)), layout="constrained",
                                 squeeze=False)  # fmt: skip
    for drawing, axis in zip(drawings, axes[:, 0]):
        drawing(axis)
    return rendered(figure, "png")


def of_result(found):
    """Returns the chart of a result file."""
    field = result.field(found)
    title = f"{found['program']}, {found.get('ranks', 0)} ranks"
    labels = ("message size (bytes)", result.FIELDS[field])
    return figure_of(lambda axes: draw(axes, title, labels, result.curves(found)))


def size_text(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def rendered(figure, form):
    """Returns the bytes of a figure in a format of FORMATS."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    require().close(figure)
    return buffer.getvalue()


def save(figure, path):
    form = path.rpartition(".")[2].lower()
    if form not in FORMATS:
        raise output.Refusal(
            "{}: expected a file name that ends in {}".format(path, ", ".join("." + name for name in FORMATS))
        )
    output.write_file(path, rendered(figure, form))


def bars(axes, title, labels, positions, series):
    """Draws a stacked bar at each position. `series`: {label: values}; colours differ, and hatches for print."""
    base = [0.0] * len(positions)
    places = range(len(positions))
    for at, (label, values) in enumerate(series.items()):
        hatch = HATCHES[at // len(PALETTE) % len(HATCHES)]
        axes.bar(places, values, bottom=base, label=label, color=PALETTE[at % len(PALETTE)],
                 hatch=hatch, edgecolor="white", linewidth=0.5)  # fmt: skip
        base = [low + value for low, value in zip(base, values)]
    fitting = TITLE // (max((len(str(x)) for x in positions), default=0) + 1)
    shown = places[:: -(-len(positions) // max(1, fitting)) or 1]
    axes.set_xticks(shown, [str(positions[place]) for place in shown])
    axes.set(title=wrapped(title), xlabel=labels[0], ylabel=labels[1])
    if series:
        legend(axes, columns=columns_for(series))


def timeline(axes, title, label, rows, series):
    """Draws bars in rows, the first one on top. `series`: {name: [(row, begin, length)]}; the most time first."""
    for at, (name, found) in enumerate(series.items()):
        look = {"facecolors": PALETTE[at % len(PALETTE)], "hatch": HATCHES[at // len(PALETTE) % len(HATCHES)]}
        for row, begin, length in found:
            axes.broken_barh([(begin, length)], (row - 0.4, 0.8), edgecolor="white", linewidth=0.3, **look)
        axes.broken_barh([], (0, 0), edgecolor="white", label=name, **look)
    shown = range(0, len(rows), -(-len(rows) // ROWS) or 1)
    axes.set_yticks(shown, [rows[row] for row in shown])
    axes.figure.set_figheight(axes.figure.get_figheight() + LINE * max(0, len(shown) - LOW_ROWS))
    axes.invert_yaxis()
    axes.set(title=wrapped(title), xlabel=label)
    if series:
        legend(axes, columns=columns_for(series))

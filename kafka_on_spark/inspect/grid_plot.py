"""The cluster's grid as a picture.

Each part has its own shape, sign and lightness (colours are Okabe and Ito's), so the picture can be
read without colours. A few partitions are drawn one by one; some hundreds are thin lines of an
overview. The page shows every partition with words.

Matplotlib is an extra, so this module loads without it: its imports stand in functions.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_on_spark.inspect.draw.grid import Cell, Grid, GridRow, Part, grid_of
from kafka_on_spark.inspect.draw.picture import Picture, new_figure
from kafka_on_spark.inspect.quorum import is_whole, quorum_words
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.raft.quorum.description import QuorumDescription
from kafka_on_spark.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS_SIGNED_MAX: Final = 96
"""More rows are drawn as an overview, without signs."""

PANEL_ROWS: Final = 32
OVERVIEW_PANEL_ROWS: Final = 250
ROWS_MAX: Final = 5000


class _Style(NamedTuple):
    fill: str
    edge: str
    ink: str
    sign: str
    hatch: str = ""
    line: str = "-"


STYLES: Final[dict[Part, _Style]] = {
    Part.LEADER: _Style("#0072B2", "#0072B2", "#FFFFFF", "L"),
    Part.IN_SYNC: _Style("#CBE3F3", "#5C93B8", "#1F4A66", "•"),
    Part.REASSIGNING: _Style("#FFFFFF", "#009E73", "#00664A", "→"),
    Part.OUT_OF_SYNC: _Style("#FBE3B5", "#B87400", "#7A4D00", "!", "////", "--"),
    Part.OFFLINE: _Style("#3B3B3B", "#3B3B3B", "#FFFFFF", "×"),
}
"""Fill, edge, colour of the sign, sign, hatch and line of each part."""

_INK: Final = "#222222"
_QUIET: Final = "#6B6B6B"
_TROUBLE: Final = "#A33B00"
_STATES: Final = {BrokerState.FENCED: "fenced", BrokerState.DRAINING: "draining", None: "gone"}


def sign_of(cell: Cell) -> str:
    """Return the sign that is written in a cell."""
    if cell.part is Part.REASSIGNING:
        return "→" if cell.is_coming else "←"
    return STYLES[cell.part].sign


def grid_picture(
    image: MetadataImage,
    topics: Iterable[str] | None = None,
    quorum: QuorumDescription | None = None,
) -> Picture:
    """Return the picture of the cluster `image`, or of some topics of it.

    `quorum` (`Cluster.describe_quorum`): the voters of its metadata log, which are named below.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
        ImportError: Matplotlib is not installed.
    """
    grid = grid_of(image, topics, quorum)
    rows = grid.rows[:ROWS_MAX]
    is_signed = len(rows) <= ROWS_SIGNED_MAX
    per_panel = PANEL_ROWS if is_signed else OVERVIEW_PANEL_ROWS
    panels = [rows[at : at + per_panel] for at in range(0, len(rows), per_panel)] or [()]
    if is_signed:
        # Panels of about the same height look better than a short last one.
        size = ceil(len(rows) / len(panels)) if rows else 0
        panels = [rows[at : at + size] for at in range(0, len(rows), size)] if rows else [()]
        return _signed(grid, panels)
    return _overview(grid, panels)


def _signed(grid: Grid, panels: Sequence[Sequence[GridRow]]) -> Picture:
    columns = len(grid.columns)
    longest = max((len(str(row.name)) for row in grid.rows), default=8)
    notes = max((len(_note(row)) for row in grid.rows), default=0)
    labels = 0.085 * longest + 0.2
    side = 0.30
    panel_width = labels + side * columns + 0.075 * notes + 0.35
    rows = max(len(panel) for panel in panels)
    # A gap between topics is half a row.
    gaps = max(len(list(groupby(panel, key=lambda row: row.name.topic))) for panel in panels)
    height = 1.95 + side * (rows + 0.5 * gaps)
    figure = new_figure(max(panel_width * len(panels), 4.6), height)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        _draw_panel(axes, grid, panel, span=rows + 0.5 * gaps)
    _finish(figure, grid, len(grid.rows), is_signed=True)
    return Picture(figure, words_of(grid))


def _note(row: GridRow) -> str:
    return row.problems[0] if row.problems else ""


def _draw_panel(axes: "Axes", grid: Grid, rows: Sequence[GridRow], span: float) -> None:
    top = 0.0
    brokers = [column.broker_id for column in grid.columns]
    for _, group in groupby(rows, key=lambda row: row.name.topic):
        for row in group:
            _draw_row(axes, row, top, brokers)
            top += 1
        top += 0.5
    axes.set_xlim(-0.6, len(brokers) - 0.4)
    axes.set_ylim(max(span, top) - 0.75, -0.6)
    axes.set_aspect("equal", anchor="NW")
    axes.set_yticks([])
    _draw_brokers(axes, grid)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_row(axes: "Axes", row: GridRow, top: float, brokers: Sequence[int]) -> None:
    axes.plot([-0.5, len(brokers) - 0.5], [top, top], color="#E6E6E6", linewidth=0.8, zorder=0)
    for broker_id, cell in row.cells.items():
        _draw_cell(axes, cell, brokers.index(broker_id), top)
    ink = _TROUBLE if row.problems else _INK
    weight = "bold" if row.problems else "normal"
    label: dict[str, Any] = {"va": "center", "fontsize": 9, "color": ink}
    axes.text(-0.8, top, str(row.name), ha="right", fontweight=weight, **label)
    axes.text(len(brokers) - 0.25, top, _note(row), ha="left", **label)


def _draw_cell(axes: "Axes", cell: Cell, left: float, top: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = STYLES[cell.part]
    box = FancyBboxPatch(
        (left - 0.36, top - 0.36),
        0.72,
        0.72,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=style.fill,
        edgecolor=style.edge,
        linewidth=1.1,
        linestyle=style.line,
        zorder=2,
    )
    axes.add_patch(box)
    sign: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 3}
    axes.text(left, top, sign_of(cell), color=style.ink, fontsize=9.5, fontweight="bold", **sign)
    if cell.part is Part.LEADER and (cell.is_leaving or cell.is_coming):
        mark = "←" if cell.is_leaving else "→"
        axes.text(left + 0.27, top - 0.27, mark, color=style.ink, fontsize=6, **sign)


def _draw_brokers(axes: "Axes", grid: Grid) -> None:
    names = [str(column.broker_id) for column in grid.columns]
    axes.set_xticks(range(len(names)), names, fontsize=10, fontweight="bold", color=_INK)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", length=0, pad=2)
    for place, column in enumerate(grid.columns):
        state = _STATES.get(column.state)
        axes.annotate(
            visible(" ".join(filter(None, (column.rack, state)))),
            xy=(place, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-3, 16),
            textcoords="offset points",
            ha="left",
            va="bottom",
            rotation=40,
            rotation_mode="anchor",
            fontsize=8,
            color=_TROUBLE if state else _QUIET,
            fontweight="bold" if state else "normal",
        )


def _overview(grid: Grid, panels: Sequence[Sequence[GridRow]]) -> Picture:
    columns = len(grid.columns)
    panel_width = max(0.5, min(0.13 * columns, 4.0)) + 0.75
    figure = new_figure(max(panel_width * len(panels), 8.5), 9.0)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        _draw_overview(axes, grid, panel)
    _finish(figure, grid, len(grid.rows), is_signed=False)
    return Picture(figure, words_of(grid))


def _draw_overview(axes: "Axes", grid: Grid, rows: Sequence[GridRow]) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb

    places = {column.broker_id: place for place, column in enumerate(grid.columns)}
    pixels = np.ones((OVERVIEW_PANEL_ROWS, len(places), 3))
    for top, row in enumerate(rows):
        pixels[top, :] = 0.95
        for broker_id, cell in row.cells.items():
            pixels[top, places[broker_id]] = to_rgb(_pixel(cell.part))
    axes.imshow(pixels, aspect="auto", interpolation="nearest")
    names = [str(column.broker_id) for column in grid.columns]
    step = max(1, ceil(len(names) / 6))
    axes.set_xticks(range(0, len(names), step), names[::step], fontsize=7)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=1)
    marks = _marks(rows)
    axes.set_yticks(list(marks), list(marks.values()), fontsize=6.5, color=_QUIET)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _marks(rows: Sequence[GridRow]) -> dict[int, str]:
    """Return the names beside rows, by row: each topic's first row, and every fiftieth."""
    marks, last = {}, -50
    for place, row in enumerate(rows):
        is_first = place == 0 or rows[place - 1].name.topic != row.name.topic
        if (is_first and place - last >= 6) or place - last >= 50:
            name = str(row.name)
            marks[place] = name if len(name) <= 14 else f"…{name[-13:]}"
            last = place
    return marks


def _finish(figure: Any, grid: Grid, row_count: int, *, is_signed: bool) -> None:
    shown = f" · the first {ROWS_MAX} of {row_count} partitions" if row_count > ROWS_MAX else ""
    figure.suptitle(
        f"Replicas by broker · {grid.time:%Y-%m-%d %H:%M:%S} UTC{shown}",
        x=0.015,
        ha="left",
        fontsize=12,
        fontweight="bold",
        color=_INK,
    )
    handles = [_handle(part, style, is_signed=is_signed) for part, style in STYLES.items()]
    legend = figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=min(len(handles), int(figure.get_figwidth() / 1.4)),
        frameon=False,
        fontsize=9,
    )
    words = fill(words_of(grid), width=max(40, int(figure.get_figwidth() * 14)))
    legend.set_title(words, prop={"size": 9})
    legend.get_title().set_color(_TROUBLE if _is_in_trouble(grid) else _QUIET)
    legend.set_alignment("left")


def _handle(part: Part, style: _Style, *, is_signed: bool) -> Any:
    from matplotlib.patches import Patch

    sign = "→ ←" if part is Part.REASSIGNING else style.sign
    text = f"{sign}  {part.value}" if is_signed else part.value
    colour = style.fill if is_signed else _pixel(part)
    line: Any = style.line
    return Patch(facecolor=colour, edgecolor=style.edge, linestyle=line, label=text)


def _pixel(part: Part) -> str:
    """Return a part's colour in an overview, where a pale colour can't be seen."""
    if part is Part.OUT_OF_SYNC:
        return "#E69F00"
    return STYLES[part].edge if part is Part.REASSIGNING else STYLES[part].fill


def _is_in_trouble(grid: Grid) -> bool:
    voters_are_whole = grid.quorum is None or is_whole(grid.quorum)
    return not voters_are_whole or any(row.problems for row in grid.rows)


def words_of(grid: Grid) -> str:
    """Return the grid in a sentence."""
    counts = [f"{count} {name}" for name, count in grid.counts.items() if count]
    words = f"{len(grid.columns)} brokers, " + (", ".join(counts) or "no partitions")
    return words if grid.quorum is None else f"{words}; {quorum_words(grid.quorum)}"

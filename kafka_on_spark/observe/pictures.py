"""The two pictures of a cluster: its grid, and its partitions' leaders and ISRs over time.

Both can be read without colours (Okabe and Ito's): by signs, thickness and hatches. Matplotlib is
an extra ("plots"), so this module loads without it: its imports stand in functions.
"""

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.base.text import visible
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.descriptions import Cell, Grid, GridRow, Part, grid_of
from kafka_on_spark.observe.history import BrokerEvent, HistoryEntry, Lane, Span, lanes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI: Final = 144
LANES_MAX: Final = 40
ROWS_MAX: Final = 5000
"""More can't be read; the title says how many are left out."""

ROWS_SIGNED_MAX: Final = 96
"""More rows are thin lines without signs."""

TROUBLE: Final = "#A33B00"
GREY: Final = "#555555"
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
HATCHES: Final = ("////", "\\\\\\\\", "....", "xxxx", "----", "++++", "oooo")
STYLES: Final = {
    Part.LEADER: ("#0072B2", "#FFFFFF", "L"),
    Part.IN_SYNC: ("#CBE3F3", "#1F4A66", "•"),
    Part.REASSIGNING: ("#009E73", "#FFFFFF", "→"),
    Part.OUT_OF_SYNC: ("#E69F00", "#000000", "!"),
    Part.OFFLINE: ("#3B3B3B", "#FFFFFF", "×"),
}
"""The colour of each part of a replica in the grid, and the colour of its sign, and the sign."""

_STATES: Final = {BrokerState.FENCED: "fenced", BrokerState.DRAINING: "draining", None: "gone"}


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A Matplotlib figure that a notebook shows, and its words for people who can't see it."""

    figure: "Figure"
    words: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to `path`, a .png, .svg or .pdf."""
        self.figure.savefig(os.fspath(path), dpi=DPI)

    def __repr__(self) -> str:
        return self.words

    def _repr_png_(self) -> bytes:
        sink = io.BytesIO()
        self.figure.savefig(sink, format="png", dpi=DPI / 2)
        return sink.getvalue()


def _new_figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: install it with pip install 'kafka_on_spark[plots]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _finish(figure: "Figure", title: str, shown: int, count: int, handles: list[Any]) -> None:
    if count > shown:
        title += f" (the first {shown} of {count} partitions)"
    figure.suptitle(title, x=0.015, ha="left", fontsize=11, fontweight="bold")
    figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=8)


def grid_picture(image: MetadataImage, topics: Iterable[str] | None = None) -> Picture:
    """Return the picture of the cluster `image`, or of some topics of it: a row a partition, a
    column a broker.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
        ImportError: Matplotlib is not installed.
    """
    grid = grid_of(image, topics)
    rows = grid.rows[:ROWS_MAX]
    is_signed = len(rows) <= ROWS_SIGNED_MAX
    size = 32 if is_signed else 250
    panels = [rows[at : at + size] for at in range(0, len(rows), size)] or [()]
    height = 2 + 0.3 * min(len(rows), size) if is_signed else 9.0
    figure = _new_figure(max(6, (3 + 0.3 * len(grid.columns)) * len(panels)), height)
    from matplotlib.patches import Patch

    for place, panel in enumerate(panels):
        _draw_grid(figure.add_subplot(1, len(panels), place + 1), grid, panel, is_signed)
    handles = [
        Patch(facecolor=fill, label=f"{sign}  {part.value}")
        for part, (fill, _, sign) in STYLES.items()
    ]
    title = f"Replicas by broker · {grid.time:%Y-%m-%d %H:%M:%S} UTC"
    _finish(figure, title, len(rows), len(grid.rows), handles)
    counts = [f"{count} {name}" for name, count in grid.counts.items() if count]
    return Picture(figure, f"{len(grid.columns)} brokers, {', '.join(counts) or 'no partitions'}")


def _draw_grid(axes: "Axes", grid: Grid, rows: Sequence[GridRow], is_signed: bool) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb

    places = {column.broker_id: place for place, column in enumerate(grid.columns)}
    pixels = np.full((max(1, len(rows)), max(1, len(places)), 3), 0.97)
    for top, row in enumerate(rows):
        for broker_id, cell in row.cells.items():
            fill, ink, _ = STYLES[cell.part]
            pixels[top, places[broker_id]] = to_rgb(fill)
            if is_signed:
                middle: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold"}
                axes.text(places[broker_id], top, _sign(cell), color=ink, **middle)
    axes.imshow(pixels, aspect="equal" if is_signed else "auto", interpolation="nearest")
    brokers = [
        visible(" ".join(filter(None, (str(each.broker_id), each.rack, _STATES.get(each.state)))))
        for each in grid.columns
    ]
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(brokers)), brokers, rotation=40, ha="left", fontsize=8)
    named = range(0, len(rows), 1 if is_signed else 25)
    names = [" ".join((*rows[top].problems[:1], str(rows[top].name))) for top in named]
    axes.set_yticks(named, names, fontsize=8)
    for top, label in zip(named, axes.get_yticklabels(), strict=True):
        label.set_color(TROUBLE if rows[top].problems else "black")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _sign(cell: Cell) -> str:
    move = "→" if cell.is_coming else "←" if cell.is_leaving else ""
    return move if cell.part is Part.REASSIGNING else STYLES[cell.part][2] + move


def timeline_picture(
    entries: Sequence[HistoryEntry],
    *,
    events: Sequence[BrokerEvent] = (),
    end: datetime | None = None,
    broker: int | None = None,
) -> Picture:
    """Return the picture of `entries` (`Cluster.history`): a lane a partition, in it a line a
    broker. A leader is a thick bar with its epoch, a follower in sync a thin hatched bar, a replica
    out of sync a dotted line.

    Args:
        events: `Cluster.broker_history`, marked over all lanes.
        end: The time to draw until.
        broker: Of each partition only this broker's line.

    Raises:
        ImportError: Matplotlib is not installed.
        InvalidRequestError: There is nothing to draw.
    """
    if not entries:
        raise InvalidRequestError("there is no history to draw: give what Cluster.history returns")
    # A broker's lines begin at its registration.
    events = [each for each in events if not each.is_registration]
    times = [*(entry.time for entry in entries), *(event.time for event in events)]
    first, last = min(times), max(times)
    end = end or last + max((last - first) * 0.06, timedelta(seconds=1))
    lanes = lanes_of(entries, end)
    if broker is not None:
        mine = BrokerId(broker)
        lanes = [
            replace(each, spans={mine: each.spans[mine]}) for each in lanes if mine in each.spans
        ]
    shown = lanes[:LANES_MAX]
    figure = _new_figure(11, 1.8 + sum(0.12 + 0.24 * len(lane.spans) for lane in shown))
    axes = figure.add_subplot()
    axes.set_xlim(_day(first), _day(end))
    _draw_lanes(axes, shown)
    _draw_events(axes, events)
    words = f"Leaders and in-sync replicas{'' if broker is None else f' on broker {broker}'}"
    _finish(figure, f"{words} · {first:%Y-%m-%d}", len(shown), len(lanes), _draw_axes(axes))
    return Picture(figure, f"{words}, of {len(lanes)} partitions over time")


def _day(moment: datetime) -> float:
    """Return a moment as Matplotlib counts: days."""
    import matplotlib.dates

    dates: Any = matplotlib.dates  # without types
    return float(dates.date2num(moment))


def _draw_lanes(axes: "Axes", lanes: Sequence[Lane]) -> None:
    brokers = sorted({broker_id for lane in lanes for broker_id in lane.spans})
    labels: dict[float, str] = {}
    top = 0.0
    for lane in lanes:
        for place, (broker_id, spans) in enumerate(lane.spans.items()):
            labels[top + place] = f"{lane.topic}-{lane.partition}  {broker_id}"
            for span in spans:
                _draw_span(axes, span, top + place, brokers.index(broker_id) % len(COLOURS))
        for span in lane.leaderless:
            _draw_leaderless(axes, span, top, len(lane.spans))
        top += len(lane.spans) + 0.5
        axes.axhline(top - 0.75, color="#DDDDDD", linewidth=0.8, zorder=0)
    axes.set_ylim(top - 0.75, -0.75)
    axes.set_yticks(list(labels), list(labels.values()), fontsize=8)


def _draw_span(axes: "Axes", span: Span, height: float, place: int) -> None:
    left, right = _day(span.start), _day(span.end)
    if span.leader_epoch is not None:
        bar = axes.barh(height, right - left, left=left, height=0.82, color=COLOURS[place])
        share = _share(axes, left, right)
        word = f"leads, epoch {span.leader_epoch}" if share > 0.13 else f"{span.leader_epoch}"
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        style: dict[str, Any] = {"label_type": "center", "fontsize": 8, "bbox": paper}
        axes.bar_label(bar, [word if share > 0.015 else ""], **style)
    elif span.is_in_sync:
        style = {"facecolor": "white", "edgecolor": COLOURS[place], "hatch": HATCHES[place]}
        axes.barh(height, right - left, left=left, height=0.4, **style)
    else:
        axes.plot([left, right], [height, height], linestyle=":", color=GREY, linewidth=1.2)


def _share(axes: "Axes", left: float, right: float) -> float:
    low, high = axes.get_xlim()
    return (right - left) / (high - low)


def _draw_leaderless(axes: "Axes", span: Span, top: float, count: int) -> None:
    """Frame a time without a leader, over all lines of the partition."""
    from matplotlib.patches import Rectangle

    left, right = _day(span.start), _day(span.end)
    paper: Any = {"facecolor": (0.64, 0.23, 0.0, 0.1), "edgecolor": TROUBLE, "linewidth": 1.4}
    axes.add_patch(Rectangle((left, top - 0.5), right - left, count, zorder=5, **paper))
    if _share(axes, left, right) > 0.07:
        place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 6, "fontsize": 8}
        axes.text((left + right) / 2, top + (count - 1) / 2, "no leader", color=TROUBLE, **place)


def _draw_events(axes: "Axes", events: Sequence[BrokerEvent]) -> None:
    """Mark events by a line, with a name that begins there, on one of four levels."""
    for place, event in enumerate(events):
        axes.axvline(_day(event.time), color="black", linewidth=1, linestyle="--", zorder=2)
        name, level = f"broker {event.broker_id} {event.name}", (2, 2 + 10 * (place % 4))
        above: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "xytext": level}
        axes.annotate(
            name, (_day(event.time), 1.0), textcoords="offset points", fontsize=8, **above
        )


def _draw_axes(axes: "Axes") -> list[Any]:
    import matplotlib.dates
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dates: Any = matplotlib.dates  # without types
    locator = dates.AutoDateLocator(minticks=4, maxticks=10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return [
        Patch(facecolor=GREY, label="leads (and is in sync)"),
        Patch(facecolor="white", edgecolor=GREY, hatch="////", label="in sync"),
        Line2D([], [], linestyle=":", color=GREY, label="out of sync"),
        Patch(facecolor=(0.64, 0.23, 0.0, 0.1), edgecolor=TROUBLE, label="no leader"),
    ]

"""A picture of who led and who was in sync: one lane a partition, one line in it a broker.

Made for people who don't see colours, too: a broker has its own line and its number beside it, a
leader is a thick bar with its epoch on it, a follower in sync a thin hatched one, a replica out of
sync a dotted line. Colours (Okabe and Ito's) only repeat that. Needs the extra "plots".
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.ids import BrokerId, LeaderEpoch
from kafka_on_spark.inspect.history import BrokerEvent
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.service.history import HistoryEntry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANES_MAX: Final = 40
"""More would not be readable; the title says how many are left out."""

# Okabe and Ito's palette, each with the colour of text on it.
_COLOURS: Final = (
    ("#0072B2", "white"),
    ("#E69F00", "black"),
    ("#009E73", "white"),
    ("#CC79A7", "black"),
    ("#56B4E9", "black"),
    ("#D55E00", "white"),
    ("#000000", "white"),
)
_HATCHES: Final = ("////", "\\\\\\\\", "....", "xxxx", "----", "++++", "oooo")
_GREY: Final = "#555555"
_EVENT_NAMES: Final = {
    BrokerState.FENCED: "fenced",
    BrokerState.ACTIVE: "back",
    BrokerState.DRAINING: "draining",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which one replica's part did not change.

    Attributes:
        start: From here on.
        end: Up to here.
        leader_epoch: Its leadership, if it led; None for a follower.
        is_in_sync: It was in the ISR.
    """

    start: datetime
    end: datetime
    leader_epoch: LeaderEpoch | None
    is_in_sync: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition: the spans of each of its replicas, brokers in ascending order."""

    topic: str
    partition: int
    spans: dict[BrokerId, list[Span]]


def lanes_of(entries: Iterable[HistoryEntry], end: datetime) -> list[Lane]:
    """Return the lanes that `entries`, oldest first, make until `end`."""
    by_partition: dict[tuple[str, int], list[HistoryEntry]] = {}
    for entry in entries:
        by_partition.setdefault((entry.topic, entry.partition), []).append(entry)
    return [Lane(*name, _spans(by_partition[name], end)) for name in sorted(by_partition)]


def _spans(entries: Sequence[HistoryEntry], end: datetime) -> dict[BrokerId, list[Span]]:
    brokers = sorted({broker_id for entry in entries for broker_id in entry.replicas})
    spans: dict[BrokerId, list[Span]] = {broker_id: [] for broker_id in brokers}
    ends = [*(entry.time for entry in entries[1:]), end]
    for entry, until in zip(entries, ends, strict=True):
        for broker_id in entry.replicas:
            epoch = entry.leader_epoch if entry.leader == broker_id else None
            _extend(spans[broker_id], Span(entry.time, until, epoch, broker_id in entry.isr))
    return spans


def _extend(spans: list[Span], new: Span) -> None:
    """Add a span, joined with the one before if nothing changed."""
    if spans:
        last = spans[-1]
        if last.end == new.start and replace(last, start=new.start, end=new.end) == new:
            spans[-1] = replace(last, end=new.end)
            return
    spans.append(new)


def plot_isr_history(
    entries: Sequence[HistoryEntry],
    path: str | os.PathLike[str],
    *,
    events: Sequence[BrokerEvent] = (),
    end: datetime | None = None,
) -> None:
    """Write the picture of `entries` (`Cluster.history`) to `path`, a .png, .svg or .pdf.

    `events` are marked over all lanes (`broker_events`). `end` is the time to draw until.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    figure = isr_history_figure(entries, events=events, end=end)
    figure.savefig(os.fspath(path), dpi=150)


def isr_history_figure(
    entries: Sequence[HistoryEntry],
    *,
    events: Sequence[BrokerEvent] = (),
    end: datetime | None = None,
) -> "Figure":
    """Return the picture as a figure, as a notebook shows it.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: install it with pip install 'kafka_on_spark[plots]'"
        ) from error
    times = [*(entry.time for entry in entries), *(event.time for event in events)]
    if end is None:
        end = _some_time_after(times)
    lanes = lanes_of(entries, end)
    shown = lanes[:LANES_MAX]
    line_count = sum(len(lane.spans) for lane in shown)
    figure = Figure(figsize=(11, 1.9 + 0.24 * line_count + 0.12 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    _draw_lanes(axes, shown, times, end)
    _draw_events(axes, events)
    _draw_title(axes, shown, len(lanes))
    _draw_key(axes)
    return figure


def _some_time_after(times: Sequence[datetime]) -> datetime:
    return max(times) + max((max(times) - min(times)) * 0.06, timedelta(seconds=1))


def _draw_lanes(
    axes: "Axes", lanes: Sequence[Lane], times: Sequence[datetime], end: datetime
) -> None:
    start = min(times)
    axes.set_xlim(start, end)  # type: ignore[arg-type]
    ticks: list[float] = []
    labels: list[str] = []
    top = 0.0
    brokers = sorted({broker_id for lane in lanes for broker_id in lane.spans})
    for lane in lanes:
        for place, (broker_id, spans) in enumerate(lane.spans.items()):
            height = top + place
            look = brokers.index(broker_id)
            for span in spans:
                _draw_span(axes, span, height, look, (end - start).total_seconds())
            ticks.append(height)
            labels.append(str(broker_id))
        middle = top + (len(lane.spans) - 1) / 2
        axes.text(
            -0.035,
            middle,
            f"{lane.topic}-{lane.partition}",
            ha="right",
            va="center",
            fontweight="bold",
            transform=axes.get_yaxis_transform(),
        )
        top += len(lane.spans) + 0.5
        axes.axhline(top - 0.75, color="#DDDDDD", linewidth=0.8, zorder=0)
    axes.set_ylim(top - 0.75, -0.75)
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.tick_params(axis="y", length=0)
    _draw_time(axes)


def _draw_time(axes: "Axes") -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates  # without types
    axes.xaxis.set_major_locator(dates.AutoDateLocator(minticks=4, maxticks=10))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    axes.set_xlabel("time (UTC)")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_span(axes: "Axes", span: Span, height: float, look: int, total_s: float) -> None:
    colour, text_colour = _COLOURS[look % len(_COLOURS)]
    width: Any = span.end - span.start
    left: Any = span.start
    if span.leader_epoch is not None:
        axes.barh(height, width, left=left, height=0.82, color=colour, zorder=3)
        _write_in_bar(axes, span, height, width.total_seconds() / total_s, text_colour)
    elif span.is_in_sync:
        axes.barh(
            height,
            width,
            left=left,
            height=0.4,
            facecolor="white",
            edgecolor=colour,
            hatch=_HATCHES[look % len(_HATCHES)],
            linewidth=0.8,
            zorder=2,
        )
    else:
        line: Any = [span.start, span.end]
        axes.plot(line, [height, height], linestyle=":", color=_GREY, linewidth=1.2, zorder=2)


def _write_in_bar(axes: "Axes", span: Span, height: float, share: float, colour: str) -> None:
    """Write which leadership a bar is, as far as there is room."""
    text = f"leader, epoch {span.leader_epoch}" if share > 0.13 else f"{span.leader_epoch}"
    if share < 0.015:
        return
    middle: Any = span.start + (span.end - span.start) / 2
    axes.text(
        middle,
        height,
        text,
        ha="center",
        va="center",
        color=colour,
        fontsize=8,
        zorder=4,
        clip_on=True,
    )


def _draw_events(axes: "Axes", events: Sequence[BrokerEvent]) -> None:
    for place, event in enumerate(events):
        moment: Any = event.time
        axes.axvline(moment, color="black", linewidth=1, linestyle="--", zorder=5)
        axes.annotate(
            f"broker {event.broker_id} {_EVENT_NAMES[event.state]}",
            xy=(moment, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3, 2 + 11 * (place % 2)),
            textcoords="offset points",
            fontsize=8,
        )


def _draw_title(axes: "Axes", lanes: Sequence[Lane], lane_count: int) -> None:
    title = "Leaders and in-sync replicas over time"
    if lane_count > len(lanes):
        title += f" (the first {len(lanes)} of {lane_count} partitions)"
    axes.set_title(title, loc="left", pad=28, fontsize=11, fontweight="bold")


def _draw_key(axes: "Axes") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.legend(
        handles=[
            Patch(facecolor=_GREY, label="leads (number: leader epoch)"),
            Patch(facecolor="white", edgecolor=_GREY, hatch="////", label="in sync"),
            Line2D([], [], linestyle=":", color=_GREY, label="out of sync"),
        ],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8,
        borderaxespad=0.2,
    )

"""A picture of leaders and in-sync replicas over time: a lane a partition, in it a line a broker.

It can be read without colours: each broker has its own line with its number, a leader is a thick
bar with its epoch, a follower in sync a thin hatched bar, a replica out of sync a dotted line.
Colours (Okabe and Ito's) only repeat that.

Matplotlib is an extra ("plots"), so this module loads without it: its imports stand in functions.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.draw.lanes import Lane, Span, lanes_of
from kafka_on_spark.inspect.draw.picture import Picture, new_figure
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.service.describe.partition_history import BrokerEvent, HistoryEntry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANES_MAX: Final = 40
"""More lanes can't be read; the title says how many are left out."""

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
_LETTER_SHARE: Final = 0.0075
"""Share of the picture's width that a letter of an event's name takes, with space around it."""

_LEVELS_MAX: Final = 6
_TROUBLE_RGB: Final = (0.64, 0.23, 0.0)
_EVENT_NAMES: Final[dict[BrokerState | None, str]] = {
    None: "unregistered",
    BrokerState.FENCED: "fenced",
    BrokerState.ACTIVE: "back",
    BrokerState.DRAINING: "draining",
}


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
    broker: int | None = None,
) -> "Figure":
    """Return the picture as a figure. `broker`: of each partition only that broker's line.

    Raises:
        ImportError: Matplotlib is not installed.
        InvalidRequestError: There is nothing to draw.
    """
    if not entries:
        raise InvalidRequestError("there is no history to draw: give what Cluster.history returns")
    # A broker's lines begin at its registration.
    events = [each for each in events if not each.is_registration]
    times = [*(entry.time for entry in entries), *(event.time for event in events)]
    if end is None:
        end = max(times) + max((max(times) - min(times)) * 0.06, timedelta(seconds=1))
    lanes = lanes_of(entries, end)
    if broker is not None:
        lanes = [lane.of_broker(BrokerId(broker)) for lane in lanes if broker in lane.spans]
    shown = lanes[:LANES_MAX]
    line_count = sum(len(lane.spans) for lane in shown)
    figure = new_figure(11, 1.6 + 0.24 * line_count + 0.12 * len(shown))
    axes = figure.add_subplot()
    axes.set_xlim(_number(min(times)), _number(end))
    _draw_lanes(axes, shown)
    _draw_axes(axes)
    levels = _draw_events(axes, events)
    title = _title(len(shown), len(lanes), min(times), broker)
    _draw_title(axes, title, 8 + 11 * levels)
    return figure


def timeline_picture(
    entries: Sequence[HistoryEntry],
    *,
    events: Sequence[BrokerEvent] = (),
    end: datetime | None = None,
    broker: int | None = None,
) -> Picture:
    """Return the same as a picture that a notebook shows by itself.

    Raises:
        ImportError: Matplotlib is not installed.
        InvalidRequestError: There is nothing to draw.
    """
    figure = isr_history_figure(entries, events=events, end=end, broker=broker)
    count = len({(entry.topic, entry.partition) for entry in entries})
    whose = "" if broker is None else f" on broker {broker}"
    return Picture(figure, f"Leaders and in-sync replicas of {count} partitions over time{whose}")


def _number(moment: datetime) -> float:
    """Return a moment as Matplotlib counts: days."""
    import matplotlib.dates

    dates: Any = matplotlib.dates  # without types
    return float(dates.date2num(moment))


def _draw_lanes(axes: "Axes", lanes: Sequence[Lane]) -> None:
    brokers = sorted({broker_id for lane in lanes for broker_id in lane.spans})
    lines: dict[float, str] = {}
    top = 0.0
    for lane in lanes:
        for place, (broker_id, spans) in enumerate(lane.spans.items()):
            lines[top + place] = str(broker_id)
            for span in spans:
                _draw_span(axes, span, top + place, brokers.index(broker_id))
        for start, end in lane.leaderless:
            _draw_leaderless(axes, _number(start), _number(end), top, len(lane.spans))
        _draw_name(axes, lane, top)
        top += len(lane.spans) + 0.5
        axes.axhline(top - 0.75, color="#DDDDDD", linewidth=0.8, zorder=0)
    axes.set_ylim(top - 0.75, -0.75)
    axes.set_yticks(list(lines), list(lines.values()), fontsize=8)


def _draw_name(axes: "Axes", lane: Lane, top: float) -> None:
    axes.annotate(
        f"{lane.topic}-{lane.partition}",
        xy=(0, top + (len(lane.spans) - 1) / 2),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-22, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontweight="bold",
    )


def _draw_leaderless(axes: "Axes", left: float, right: float, top: float, count: int) -> None:
    """Frame a time without a leader, over all lines of the partition, with its name."""
    from matplotlib.patches import Rectangle

    frame = Rectangle(
        (left, top - 0.5),
        right - left,
        count,
        facecolor=(*_TROUBLE_RGB, 0.10),
        edgecolor=_TROUBLE_RGB,
        linewidth=1.4,
        zorder=5,
    )
    axes.add_patch(frame)
    low, high = axes.get_xlim()
    if (right - left) / (high - low) < 0.07:
        return
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 7, "fontweight": "bold"}
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    middle = top + (count - 1) / 2
    axes.text(
        (left + right) / 2,
        middle,
        "no leader",
        color=_TROUBLE_RGB,
        fontsize=8,
        bbox=paper,
        **style,
    )


def _draw_span(axes: "Axes", span: Span, height: float, place: int) -> None:
    colour, text_colour = _COLOURS[place % len(_COLOURS)]
    left, right = _number(span.start), _number(span.end)
    if span.leader_epoch is not None:
        axes.barh(height, right - left, left=left, height=0.82, color=colour, zorder=3)
        _draw_epoch(axes, span, height, text_colour, colour)
    elif span.is_in_sync:
        hatch = _HATCHES[place % len(_HATCHES)]
        style: dict[str, Any] = {"facecolor": "white", "edgecolor": colour, "hatch": hatch}
        axes.barh(height, right - left, left=left, height=0.4, linewidth=0.8, zorder=2, **style)
    else:
        style = {"linestyle": ":", "color": _GREY, "linewidth": 1.2}
        axes.plot([left, right], [height, height], zorder=2, **style)


def _draw_epoch(axes: "Axes", span: Span, height: float, colour: str, ground: str) -> None:
    """Write a leadership's epoch on its bar, in as many words as fit."""
    left, right = _number(span.start), _number(span.end)
    low, high = axes.get_xlim()
    share = (right - left) / (high - low)
    if share < 0.015:
        return
    text = f"leads, epoch {span.leader_epoch}" if share > 0.13 else f"{span.leader_epoch}"
    # Above the lines of events, which would cross it out.
    bar = {"facecolor": ground, "edgecolor": "none", "pad": 1}
    place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 6, "bbox": bar}
    axes.text((left + right) / 2, height, text, color=colour, fontsize=8, **place)


def time_labels(moments: Sequence[datetime]) -> list[str]:
    """Return a label for each moment, the shortest that differ: seconds, or also days or parts of
    seconds."""
    forms: tuple[Callable[[datetime], str], ...] = (
        lambda moment: f"{moment:%H:%M:%S}",
        lambda moment: f"{moment:%m-%d %H:%M:%S}",
        lambda moment: f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}",
    )
    # Matplotlib counts in days, which loses some microseconds.
    rounded = [each + timedelta(microseconds=500) for each in moments]
    whole = [each - timedelta(microseconds=each.microsecond % 1000) for each in rounded]
    found = [[form(moment) for moment in whole] for form in forms]
    found.append([f"{moment:%H:%M:%S.%f}" for moment in moments])
    return next((each for each in found if len(set(each)) == len(set(moments))), found[-1])


def _time_formatter() -> Any:
    import matplotlib.dates
    import matplotlib.ticker

    dates: Any = matplotlib.dates  # without types
    base: Any = matplotlib.ticker.Formatter

    class Times(base):  # type: ignore[misc]
        def __call__(self, place: float, position: int | None = None) -> str:
            return self.format_ticks([place])[0]

        def format_ticks(self, places: Sequence[float]) -> list[str]:
            return time_labels(dates.num2date(places))

    formatter: Any = Times
    return formatter()


def _draw_axes(axes: "Axes") -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates  # without types
    axes.xaxis.set_major_locator(dates.AutoDateLocator(minticks=4, maxticks=10))
    axes.xaxis.set_major_formatter(_time_formatter())
    axes.set_xlabel("time (UTC)", fontsize=9)
    axes.tick_params(axis="x", labelsize=9)
    axes.tick_params(axis="y", length=0)
    axes.annotate(
        "broker",
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(-4, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_events(axes: "Axes", events: Sequence[BrokerEvent]) -> int:
    """Mark events with their names, where there is room; return the number of levels of names."""
    low, high = axes.get_xlim()
    ends: list[float] = []  # where each level's last name ends
    for event in events:
        moment = _number(event.time)
        name = f"broker {event.broker_id} {_EVENT_NAMES[event.state]}"
        half = len(name) * _LETTER_SHARE * (high - low) / 2
        level = next((each for each, end in enumerate(ends) if end < moment - half), len(ends))
        axes.axvline(moment, color="black", linewidth=1, linestyle="--", zorder=5)
        if level == _LEVELS_MAX:
            continue  # names on top of each other say nothing; the line shows when it was
        ends[level : level + 1] = [moment + half]
        axes.annotate(
            name,
            xy=(moment, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 2 + 11 * level),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    return len(ends)


def _title(shown_count: int, lane_count: int, day: datetime, broker: int | None) -> str:
    whose = "" if broker is None else f" on broker {broker}"
    title = f"Leaders and in-sync replicas{whose} · {day:%Y-%m-%d}"
    if lane_count > shown_count:
        title += f" (the first {shown_count} of {lane_count} partitions)"
    return title


def _draw_title(axes: "Axes", title: str, height: float) -> None:
    """Write the title above the events, and the legend of the bars beside it."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_title(title, loc="left", pad=height, fontsize=11, fontweight="bold")
    axes.legend(
        handles=[
            Patch(facecolor=_GREY, label="leads (and is in sync)"),
            Patch(facecolor="white", edgecolor=_GREY, hatch="////", label="in sync"),
            Line2D([], [], linestyle=":", color=_GREY, label="out of sync"),
            Patch(facecolor=(*_TROUBLE_RGB, 0.10), edgecolor=_TROUBLE_RGB, label="no leader"),
        ],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=(height - 6) / 8,  # in letters of 8 points
        ncols=4,
        frameon=False,
        fontsize=8,
    )

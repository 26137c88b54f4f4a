"""The cluster as one HTML page: figures, brokers, voters, the grid with every partition, decisions.

The page loads no file, font or script, and its policy forbids any. Text from the cluster is
escaped, since racks, roots and causes may contain anything. Only replicas are elements, not empty
cells, and a browser lays out only the rows in view, so that some thousand partitions scroll well.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.draw.grid import Cell, Grid, GridRow, Part, grid_of
from kafka_on_spark.inspect.draw.page_style import SCRIPT, STYLE
from kafka_on_spark.inspect.quorum import quorum_sentence, role_of, voter_rows
from kafka_on_spark.inspect.report import broker_list
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.raft.quorum.description import QuorumDescription
from kafka_on_spark.service.describe.partition_history import HistoryEntry
from kafka_on_spark.visible import visible

ENTRIES_MAX: Final = 200
"""The number of newest decisions on the page."""

TOPIC_OPEN_ROWS_MAX: Final = 100
"""A topic with more partitions is folded, unless one of them has a problem."""

LARGE_ROWS_MIN: Final = 500
"""With so many rows, a browser lays out each row only when it comes into view."""

CHUNK_ROWS: Final = 50
ROW_PIXELS: Final = 28
_CLASSES: Final = {
    Part.LEADER: "l",
    Part.IN_SYNC: "s",
    Part.OUT_OF_SYNC: "o",
    Part.REASSIGNING: "m",
    Part.OFFLINE: "f",
}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Page:
    """A page that a notebook shows inline, and that can be saved.

    Attributes:
        html: The whole page.
    """

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to `path`."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        # In a frame, so that its style and the notebook's don't mix.
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="The cluster" sandbox="allow-scripts"'
            ' style="width:100%;height:640px;border:1px solid #8884;border-radius:6px"></iframe>'
        )


def cluster_page(
    image: MetadataImage,
    entries: Sequence[HistoryEntry] = (),
    topics: Iterable[str] | None = None,
    quorum: QuorumDescription | None = None,
) -> Page:
    """Return the page of the cluster `image`, or of some topics of it.

    `entries` is its history (`Cluster.history`), of which the newest are listed; `quorum`
    (`Cluster.describe_quorum`) the voters of its metadata log, who are shown where they are given.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    grid = grid_of(image, topics, quorum)
    cluster_id = shown(grid.cluster_id)
    large = ' class="large"' if len(grid.rows) > LARGE_ROWS_MIN else ""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Cluster {cluster_id}</title><style>{STYLE}</style></head>",
        f'<body{large} style="--brokers:{len(grid.columns)}"><h1>Cluster</h1>',
        f'<p class="quiet"><code>{cluster_id}</code> as of {grid.time:%Y-%m-%d %H:%M:%S} UTC,'
        f" metadata offset {grid.offset:,}</p>",
        _tiles(grid),
        _brokers(image, grid),
        "" if quorum is None else _voters(quorum),
        _partitions(grid),
        _decisions(entries),
        f"<script>{SCRIPT}</script></body></html>",
    ]
    return Page("\n".join(parts))


def shown(text: str) -> str:
    """Return text from the cluster, escaped: none of it is markup, all of it is visible."""
    return escape(visible(text))


def _tiles(grid: Grid) -> str:
    bad = sum(column.state is not BrokerState.ACTIVE for column in grid.columns)
    figures = [("brokers", len(grid.columns), False), ("brokers not active", bad, bad > 0)]
    if grid.quorum is not None:
        lost = sum(role_of(each) == "lost" for each in grid.quorum.voters)
        figures += [("voters", len(grid.quorum.voters), False), ("voters lost", lost, lost > 0)]
    for name, count in grid.counts.items():
        is_bad = count > 0 and name not in ("partitions", "reassigning")
        figures.append((name, count, is_bad))
    tiles = (
        f'<div class="tile{" bad" if is_bad else ""}"><b>{count:,}</b>{name}</div>'
        for name, count, is_bad in figures
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _brokers(image: MetadataImage, grid: Grid) -> str:
    rows = []
    for column in grid.columns:
        broker = image.brokers.get(column.broker_id)
        state = "unregistered" if column.state is None else column.state.value
        bad = "" if state == "active" else ' class="bad"'
        root = "" if broker is None else shown(broker.root)
        rows.append(
            f'<tr><td class="n">{column.broker_id}</td><td{bad}>{state}</td>'
            f'<td>{shown(column.rack or "")}</td><td class="n">{column.leaders:,}</td>'
            f'<td class="n">{column.replicas:,}</td><td><code>{root}</code></td></tr>'
        )
    return (
        '<h2>Brokers</h2><div class="wide"><table><thead><tr><th class="n">id</th><th>state</th>'
        '<th>rack</th><th class="n">leads</th><th class="n">replicas</th><th>root</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _voters(quorum: QuorumDescription) -> str:
    rows = []
    for each, cells in zip(quorum.voters, voter_rows(quorum), strict=True):
        number, role, epoch, end, behind, root = map(shown, cells)
        bad = "" if role in ("leads", "follows") else ' class="bad"'
        why = "" if each.problem is None else shown(each.problem)
        rows.append(
            f'<tr><td class="n">{number}</td><td{bad}>{role}</td><td class="n">{epoch}</td>'
            f'<td class="n">{end}</td><td class="n">{behind}</td><td><code>{root}</code></td>'
            f'<td class="why">{why}</td></tr>'
        )
    return (
        f'<h2>Metadata voters <span class="quiet">{shown(quorum_sentence(quorum))}</span></h2>'
        '<div class="wide"><table><thead><tr><th class="n">id</th><th>role</th>'
        '<th class="n">epoch</th><th class="n">log end</th><th class="n">behind</th><th>root</th>'
        f"<th>problem</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _partitions(grid: Grid) -> str:
    legend = "".join(
        f'<span><i class="c {name}" aria-hidden="true"></i>{part.value}</span>'
        for part, name in _CLASSES.items()
    )
    topics = [
        _topic(grid, name, list(group))
        for name, group in groupby(grid.rows, key=lambda row: row.name.topic)
    ]
    hidden = " hidden" if topics else ""
    return (
        "<h2>Partitions</h2>"
        '<div class="tools"><input id="find" type="search" placeholder="topic or topic-partition"'
        ' aria-label="Find partitions"><select id="show" aria-label="Which partitions">'
        '<option value="all">all partitions</option><option value="trouble">with a problem</option>'
        '<option value="moving">reassigning</option></select></div>'
        f'<div class="legend">{legend}</div>{"".join(topics)}'
        f'<p id="none" class="none"{hidden}>There is no such partition.</p>'
    )


def _topic(grid: Grid, name: str, rows: Sequence[GridRow]) -> str:
    problem_count = sum(bool(row.problems) for row in rows)
    is_open = problem_count or len(rows) <= TOPIC_OPEN_ROWS_MAX
    noun = "partition" if len(rows) == 1 else "partitions"
    bad = f' · <span class="bad">{problem_count:,} with a problem</span>' if problem_count else ""
    head = "".join(
        f'<i style="grid-column:{place}"{_head_class(column.state)}>{column.broker_id}</i>'
        for place, column in enumerate(grid.columns, 2)
    )
    places = {column.broker_id: place for place, column in enumerate(grid.columns, 2)}
    chunks = [
        _chunk([_row(row, places) for row in rows[at : at + CHUNK_ROWS]])
        for at in range(0, len(rows), CHUNK_ROWS)
    ]
    return (
        f"<details{' open' if is_open else ''}><summary>{shown(name)}"
        f' <span class="quiet">{len(rows):,} {noun}</span>{bad}</summary>'
        f'<div class="rows"><div class="row head">{head}</div>{"".join(chunks)}</div></details>'
    )


def _chunk(rows: Sequence[str]) -> str:
    # The browser lays it out when it comes into view, and needs its height before.
    height = ROW_PIXELS * len(rows)
    return (
        f'<div class="chunk" style="contain-intrinsic-size:auto {height}px">{"".join(rows)}</div>'
    )


def _head_class(state: BrokerState | None) -> str:
    return "" if state is BrokerState.ACTIVE else ' class="bad"'


def _row(row: GridRow, places: Mapping[BrokerId, int]) -> str:
    classes = "row" + " trouble" * bool(row.problems) + " moving" * row.is_reassigning
    cells = "".join(
        _cell(cell, broker_id, places[broker_id]) for broker_id, cell in sorted(row.cells.items())
    )
    leader = "no leader" if row.leader is None else f"leader {row.leader}"
    notes = [f"committed to {row.high_watermark:,}"]
    if row.is_reassigning:
        notes.append("reassigning")
    problems = f"<strong>{shown(', '.join(row.problems))}</strong> · " if row.problems else ""
    leader_note = "" if row.leader is None else f"{leader} · "
    return (
        f'<div class="{classes}" data-n="{shown(str(row.name))}"><b>{row.name.partition}</b>'
        f"{cells}<em>{problems}{leader_note}{' · '.join(notes)}</em></div>"
    )


def _cell(cell: Cell, broker_id: BrokerId, place: int) -> str:
    moves = " g" * cell.is_leaving + " a" * cell.is_coming
    words = shown(f"broker {broker_id}: {cell.words}")
    return (
        f'<i class="c {_CLASSES[cell.part]}{moves}" style="grid-column:{place}" role="img"'
        f' title="{words}" aria-label="{words}"></i>'
    )


def _decisions(entries: Sequence[HistoryEntry]) -> str:
    if not entries:
        return ""
    newest = list(reversed(entries[-ENTRIES_MAX:]))
    rows = "".join(
        _decision(list(group))
        for _, group in groupby(newest, key=lambda entry: (entry.time, entry.cause))
    )
    count = f"the newest {len(newest):,} of {len(entries):,}" if len(entries) > len(newest) else ""
    return (
        f'<h2>Decisions <span class="quiet">{count}</span></h2><div class="wide">'
        '<table class="told"><thead><tr><th>time (UTC)</th><th>cause</th><th>partition</th>'
        '<th class="n">leader</th><th class="n">epoch</th><th>in sync</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _decision(entries: Sequence[HistoryEntry]) -> str:
    """Return the rows of one decision; its cause stands once."""
    first, span = entries[0], f' rowspan="{len(entries)}"'
    lead = (
        f"<td{span}>{first.time:%Y-%m-%d %H:%M:%S}</td>"
        f'<td class="why"{span}>{shown(first.cause or "")}</td>'
    )
    rows = []
    for entry in entries:
        leader = "none" if entry.leader is None else str(entry.leader)
        rows.append(
            f"<tr>{lead}<td>{shown(f'{entry.topic}-{entry.partition}')}</td>"
            f'<td class="n{" bad" if entry.leader is None else ""}">{leader}</td>'
            f'<td class="n">{entry.leader_epoch}</td><td>{broker_list(entry.isr)}</td></tr>'
        )
        lead = ""
    return "".join(rows)

"""Whether all that was acknowledged is there, once and in order, at the end. Pure, but for reading.

What a topic holds, and what a stream saw of it, is compared with the notes of those who appended to it,
offset by offset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kafka_on_spark import Cluster
from tests.rigs.soaking.folder import COPIES, EVENTS, TABLE
from tests.rigs.soaking.notes import TABLE_KEYS, Run, is_tombstone, sent_by

FINDINGS_MAX: Final = 20
"""Of one kind: one broken offset is followed by many."""

Notes = Sequence[tuple[str, Mapping[str, Any]]]
"""Clients, and the lines that they have noted."""

Place = tuple[int, int]
"""Partition and offset."""

Sent = tuple[str, int]
"""A client, and the number of its record."""

Records = Mapping[int, Sequence[tuple[int, str, int]]]
"""By partition: offset, client and number of each record, in the order of reading."""


def acknowledged(topic: str, notes: Notes) -> Iterator[tuple[Place, Sent]]:
    """Yield each record of a topic that was acknowledged."""
    for name, line in notes:
        if line.get("topic") == topic and "runs" in line:
            for run in line["runs"]:
                yield from _records_of(name, Run(*run))


def seen_by_stream(notes: Notes) -> dict[Place, Sent]:
    lines = (each for _, line in notes if line["kind"] == "seen" for each in line["runs"])
    return dict(record for name, *run in lines for record in _records_of(name, Run(*run)))


def _records_of(name: str, run: Run) -> Iterator[tuple[Place, Sent]]:
    for each in range(run.count):
        yield (run.partition, run.offset + each), (name, run.first + each)


def differences(
    topic: str, notes: Notes, there: Mapping[Place, Sent], may_lack: Callable[[Place, Sent], bool]
) -> Iterator[str]:
    """Yield what differs between what was acknowledged of a topic and what is there, in sentences:
    each record stands at its offset, or may lack there; what stands there was acknowledged there, or
    its append failed."""
    claimed = set()
    for at, sent in acknowledged(topic, notes):
        claimed.add(at)
        found = there.get(at)
        if found != sent and (found is not None or not may_lack(at, sent)):
            stands = "nothing" if found is None else f"{found[0]}:{found[1]}"
            yield f"{sent[0]}:{sent[1]} was acknowledged at {at}, where {stands} stands"
    unknown = {
        (name, line["first"] + each)
        for name, line in notes
        if line["kind"] == "failed" and line["topic"] == topic
        for each in range(line["count"])
    }
    for at, sent in there.items():
        if at not in claimed and sent not in unknown:
            yield f"{sent[0]}:{sent[1]} at {at} was never acknowledged there, nor did its append fail"


def topic_findings(
    topic: str, notes: Notes, records: Records, log_starts: Mapping[int, int]
) -> Iterator[str]:
    """Yield what is wrong with a topic. What stands below a log start is gone, and so may be a record
    of the compacted topic whose key came again, and a tombstone."""
    yield from _disorder(records)
    yield from _doubles(records)
    newest = dict[str, int]()
    for _, (name, number) in acknowledged(topic, notes):
        newest[name] = max(number, newest.get(name, -1))

    def may_lack(at: Place, sent: Sent) -> bool:
        is_passed = sent[1] + TABLE_KEYS <= newest[sent[0]] or is_tombstone(sent[1])
        return at[1] < log_starts.get(at[0], 0) or (topic == TABLE and is_passed)

    yield from differences(topic, notes, _by_place(records), may_lack)


def _by_place(records: Records) -> dict[Place, Sent]:
    return {
        (partition, offset): (name, number)
        for partition, each in records.items()
        for offset, name, number in each
    }


def _disorder(records: Records) -> Iterator[str]:
    """Offsets rise, and so do the numbers of each client in a partition."""
    for partition, each in records.items():
        last_offset, newest = -1, dict[str, int]()
        for offset, name, number in each:
            if offset <= last_offset:
                yield f"offset {offset} of partition {partition} comes after {last_offset}"
            if number <= newest.get(name, -1):
                yield f"{name}:{number} of partition {partition} comes after {newest[name]}"
            last_offset, newest[name] = offset, max(number, newest.get(name, -1))


def _doubles(records: Records) -> Iterator[str]:
    seen = dict[Sent, Place]()
    for at, sent in _by_place(records).items():
        if seen.setdefault(sent, at) != at:
            yield f"{sent[0]}:{sent[1]} stands at {seen[sent]} and at {at}"


def stream_findings(notes: Notes) -> Iterator[str]:
    """Yield what is wrong with what the reading stream saw of the topic over the whole run.

    Retention deletes most of a run's records before it ends, so only the stream has seen them all: each
    from the first that it saw to the last, but for gaps, which a log start had passed.
    """
    there = seen_by_stream(notes)
    gaps = [line for _, line in notes if line["kind"] == "gap"]
    ends = dict[int, list[int]]()
    for partition, offset in there:
        ends.setdefault(partition, []).append(offset)
    bounds = {partition: (min(each), max(each)) for partition, each in ends.items()}
    for partition in {at[0] for at, _ in acknowledged(EVENTS, notes)} - bounds.keys():
        yield f"the stream saw nothing of partition {partition}"

    def may_lack(at: Place, sent: Sent) -> bool:
        first, last = bounds.get(at[0], (0, -1))
        is_gap = any(
            each["partition"] == at[0] and each["first"] <= at[1] < each["end"] for each in gaps
        )
        return is_gap or not first <= at[1] <= last

    yield from (f"stream: {each}" for each in differences(EVENTS, notes, there, may_lack))


COPIED_AGAIN: Final = 1000
"""A sink's batch has the records of all partitions one after the other: where retention has deleted
the start of a copy, the first records of a client may be newer than some that were deleted."""


def copy_findings(events: Records, copies: Records, *, is_whole: bool) -> Iterator[str]:
    """Yield what is wrong with what the sink made of `events`: each record is there once, and all
    of them, but for those that are older than the first that are left of the copy if records were
    deleted (not `is_whole`)."""
    yield from _doubles(copies)
    wanted = {each[1:] for rows in events.values() for each in rows}
    copied = {each[1:] for rows in copies.values() for each in rows}
    counts, newest = dict[str, int](), dict[str, int]()
    for _, name, number in (each for rows in copies.values() for each in rows):
        if not is_whole and counts.get(name, 0) < COPIED_AGAIN:
            newest[name] = max(newest.get(name, -1), number)
        counts[name] = counts.get(name, 0) + 1
    lacking = [each for each in wanted - copied if each[1] > newest.get(each[0], -1)]
    if lacking:
        yield f"the copy lacks {len(lacking)} records, {min(lacking)} among them"
    if is_whole and copied - wanted:
        yield f"the copy has {len(copied - wanted)} records that are none"


def bounded(findings: Iterable[str]) -> list[str]:
    """Return the first findings, and how many more there are."""
    found = list(findings)
    rest = len(found) - FINDINGS_MAX
    return found if rest <= 0 else [*found[:FINDINGS_MAX], f"… and {rest} more of this kind"]


def read_records(cluster: Cluster, topic: str) -> Records:
    table = cluster.read(topic).select(["partition", "offset", "value", "headers"])
    found: dict[int, list[tuple[int, str, int]]] = {}
    for batch in table.to_batches():
        columns = (batch.column(each).to_pylist() for each in range(4))
        for partition, offset, value, headers in zip(*columns, strict=True):
            name, number = sent_by(value, headers)
            found.setdefault(partition, []).append((offset, name, number))
    return found


def check(cluster: Cluster, notes: Notes, topics: Iterable[str]) -> list[str]:
    """Return all that is wrong with the topics of a run, in sentences."""
    found: list[str] = []
    read: dict[str, Records] = {}
    is_whole = True
    for topic in topics:
        read[topic] = read_records(cluster, topic)
        starts = {
            number: int(each.log_start_offset) for number, each in cluster.offsets(topic).items()
        }
        is_whole = is_whole and (topic == TABLE or not any(starts.values()))
        if topic != COPIES:
            sentences = topic_findings(topic, notes, read[topic], starts)
            found += [f"{topic}: {each}" for each in bounded(sentences)]
    found += [f"{EVENTS}: {each}" for each in bounded(stream_findings(notes))]
    copied = copy_findings(read[EVENTS], read[COPIES], is_whole=is_whole)
    return found + [f"{COPIES}: {each}" for each in bounded(copied)]

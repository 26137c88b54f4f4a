"""Whether all that was acknowledged is there, once and in order, at the end. Pure, but for reading.

What a topic holds is compared with the notes of those who appended to it, offset by offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_on_spark import Cluster
from tests.rigs.soaking.folder import COPIES, EVENTS, TABLE
from tests.rigs.soaking.notes import TABLE_KEYS, Run, Seen, is_tombstone, sent_by

FINDINGS_MAX: Final = 20
"""Of one kind: one broken offset is followed by many."""


@dataclass(slots=True)
class Sent:
    """What clients have noted of one topic."""

    runs: dict[str, list[Run]] = field(default_factory=dict)
    unknown: dict[str, set[int]] = field(default_factory=dict)


def sent_to(topic: str, notes: Iterable[tuple[str, Mapping[str, Any]]]) -> Sent:
    sent = Sent()
    for name, line in notes:
        if line.get("topic") != topic:
            continue
        if line["kind"] == "seen":
            continue
        if line["kind"] == "failed":
            numbers = range(line["first"], line["first"] + line["count"])
            sent.unknown.setdefault(name, set()).update(numbers)
        else:
            sent.runs.setdefault(name, []).extend(Run(*each) for each in line["runs"])
    return sent


def seen_by_stream(
    notes: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[list[Seen], dict[int, list[tuple[int, int]]]]:
    """Return what the reading stream saw, and by partition what a log start had passed before."""
    seen: list[Seen] = []
    gaps: dict[int, list[tuple[int, int]]] = {}
    for _, line in notes:
        if line["kind"] == "seen":
            seen += [Seen(name, Run(*run)) for name, *run in line["runs"]]
        elif line["kind"] == "gap":
            gaps.setdefault(line["partition"], []).append((line["first"], line["end"]))
    return seen, gaps


Records = Mapping[int, Sequence[tuple[int, str, int]]]
"""By partition: offset, client and number of each record, in the order of reading."""


def findings_of(
    sent: Sent, records: Records, log_starts: Mapping[int, int], *, is_compacted: bool = False
) -> Iterator[str]:
    """Yield what is wrong with a topic, in sentences.

    What stands below a log start is gone, and so may be a record of a compacted topic whose key
    came again, and a tombstone; else each acknowledged record stands at its offset.
    """
    yield from _disorder(records)
    yield from _doubles(records)
    there = {
        (partition, offset): (name, number)
        for partition, each in records.items()
        for offset, name, number in each
    }
    claimed = set()
    for name, runs in sent.runs.items():
        newest = max(run.first + run.count for run in runs) - 1
        for run in runs:
            for place in range(run.count):
                at = (run.partition, run.offset + place)
                claimed.add(at)
                found = there.get(at)
                number = run.first + place
                is_passed = number + TABLE_KEYS <= newest or is_tombstone(number)
                may_be_gone = at[1] < log_starts.get(at[0], 0) or (is_compacted and is_passed)
                if found != (name, number) and not (found is None and may_be_gone):
                    yield (
                        f"{name}:{number} was acknowledged at offset {at[1]} of"
                        f" partition {at[0]}, where {_words(found)} stands"
                    )
    for at, (name, number) in there.items():
        if at not in claimed and number not in sent.unknown.get(name, ()):
            yield f"{name}:{number} at {at} was never acknowledged, nor did its append fail"


def _words(found: tuple[str, int] | None) -> str:
    return "nothing" if found is None else f"{found[0]}:{found[1]}"


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
    seen: dict[tuple[str, int], tuple[int, int]] = {}
    for partition, each in records.items():
        for offset, name, number in each:
            before = seen.setdefault((name, number), (partition, offset))
            if before != (partition, offset):
                yield f"{name}:{number} stands at {before} and at {(partition, offset)}"


def stream_findings(
    sent: Sent, seen: Iterable[Seen], gaps: Mapping[int, Sequence[tuple[int, int]]]
) -> Iterator[str]:
    """Yield what is wrong with what a stream saw of a topic over the whole run, in sentences.

    Retention deletes most of a run's records before it ends, so only the stream has seen them all.
    It sees each acknowledged record at its offset, from the first that it saw to the last, but for
    `gaps`, by partition: [first, end) of offsets that a log start had passed. What it sees was
    acknowledged there, or its append failed.
    """
    runs = _by_partition(seen)
    acked = _by_partition(Seen(name, run) for name, of in sent.runs.items() for run in of)
    for partition in sorted({*runs, *acked}):
        there = dict(_expanded(runs.get(partition, ())))
        of_partition = acked.get(partition, ())
        if not there:
            yield f"the stream saw nothing of partition {partition}"
            continue
        for offset, name, number in _unseen(there, of_partition, gaps.get(partition, ())):
            yield (
                f"{name}:{number} was acknowledged at offset {offset} of partition {partition},"
                f" where the stream saw {_words(there.get(offset))}"
            )
        for offset, name, number in _unacknowledged(there, of_partition, sent.unknown):
            yield (
                f"the stream saw {name}:{number} at {(partition, offset)}, which was never"
                " acknowledged there"
            )


def _by_partition(runs: Iterable[Seen]) -> dict[int, list[Seen]]:
    found: dict[int, list[Seen]] = {}
    for each in runs:
        found.setdefault(each.run.partition, []).append(each)
    return found


def _unseen(
    there: Mapping[int, tuple[str, int]],
    acked: Iterable[Seen],
    gaps: Sequence[tuple[int, int]],
) -> Iterator[tuple[int, str, int]]:
    first, last = min(there), max(there)
    for offset, sent in _expanded(acked):
        found = there.get(offset)
        is_due = first <= offset <= last and not any(low <= offset < end for low, end in gaps)
        if found != sent and (found is not None or is_due):
            yield offset, *sent


def _unacknowledged(
    there: Mapping[int, tuple[str, int]], acked: Iterable[Seen], unknown: Mapping[str, set[int]]
) -> Iterator[tuple[int, str, int]]:
    known = {offset for offset, _ in _expanded(acked)}
    for offset, (name, number) in there.items():
        if offset not in known and number not in unknown.get(name, ()):
            yield offset, name, number


def _expanded(runs: Iterable[Seen]) -> Iterator[tuple[int, tuple[str, int]]]:
    for each in runs:
        for place in range(each.run.count):
            yield each.run.offset + place, (each.name, each.run.first + place)


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
    if is_whole:
        if wanted != copied:
            yield (
                f"the copy lacks {len(wanted - copied)} records and has {len(copied - wanted)}"
                " others"
            )
        return
    newest = _newest_of_first(copies)
    lacking = [each for each in wanted - copied if each[1] > newest.get(each[0], -1)]
    if lacking:
        yield f"the copy lacks {len(lacking)} records, {_words(min(lacking))} among them"


def _newest_of_first(copies: Records) -> dict[str, int]:
    counts, newest = dict[str, int](), dict[str, int]()
    for rows in copies.values():
        for _, name, number in rows:
            if counts.get(name, 0) < COPIED_AGAIN:
                newest[name] = max(newest.get(name, -1), number)
            counts[name] = counts.get(name, 0) + 1
    return newest


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


def check(
    cluster: Cluster, notes: Sequence[tuple[str, Mapping[str, Any]]], topics: Iterable[str]
) -> list[str]:
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
            sentences = findings_of(
                sent_to(topic, notes), read[topic], starts, is_compacted=topic == TABLE
            )
            found += [f"{topic}: {each}" for each in bounded(sentences)]
    seen, gaps = seen_by_stream(notes)
    streamed = stream_findings(sent_to(EVENTS, notes), seen, gaps)
    found += [f"{EVENTS}: {each}" for each in bounded(streamed)]
    copied = copy_findings(read[EVENTS], read[COPIES], is_whole=is_whole)
    return found + [f"{COPIES}: {each}" for each in bounded(copied)]

"""The anomalies that a log with Kafka's promises never shows, each as a function of the facts.

Each takes the facts of a whole run and yields what is wrong, in words. All are linear or n log n,
since offsets give the order. `CHECKS` names them all; after jepsen.tests.kafka, but stricter, as
offsets here have no gaps, a batch is one commit, and readers choose their own partitions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.rigs.torturing.checks.facts import Batch, Facts, Poll
from tests.rigs.torturing.history import FAIL, OK

STUCK_NS_MAX: Final = 60 * 10**9
"""How long a call, or a partition without an acknowledged append, may take after all is healed."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that must not be."""

    name: str
    key: str
    sentence: str


Found = Iterator[tuple[str, str]]
"""Pairs of a partition (or a process) and a sentence."""


def inconsistent_offsets(facts: Facts) -> Found:
    """Two values at one offset."""
    for key in facts.keys:
        values: dict[int, set[str]] = defaultdict(set)
        for offset, value in facts.seen(key):
            values[offset].add(value)
        for offset, found in sorted(values.items()):
            if len(found) > 1:
                yield key, f"offset {offset} was seen with {_listed(found)}"


def duplicate(facts: Facts) -> Found:
    """One value at two offsets."""
    for key in facts.keys:
        offsets: dict[str, set[int]] = defaultdict(set)
        for offset, value in facts.seen(key):
            offsets[value].add(offset)
        for value, found in sorted(offsets.items()):
            if len(found) > 1:
                yield key, f"{value} was seen at the offsets {_listed(found)}"


def lost_write(facts: Facts) -> Found:
    """A value that must be there, below an offset that was read, and that nobody read."""
    for key in facts.keys:
        read = facts.read(key)
        last = max((poll.end - 1 for poll in facts.polls_of(key) if poll.records), default=-1)
        offsets = facts.offset_of(key)
        for batch in facts.of(key):
            if batch.outcome != OK and not read.intersection(batch.values):
                continue
            for base in batch.bases or _bases_read(offsets, batch):
                for offset, value in enumerate(batch.values, base):
                    if offset <= last and value not in read:
                        yield key, f"{value} must be at {offset}, and no read has it"


def _bases_read(offsets: Mapping[str, int], batch: Batch) -> Iterable[int]:
    return sorted(
        {offsets[value] - at for at, value in enumerate(batch.values) if value in offsets}
    )


def unseen(facts: Facts) -> Found:
    """A value that was acknowledged and is not in the log at the end."""
    for key, final in _finals(facts):
        for batch in facts.of(key):
            missing = [value for value in batch.values if value not in final]
            if batch.outcome == OK and missing:
                yield key, f"{_listed(missing)} of {batch.client} was acknowledged and is not there"


def vanished(facts: Facts) -> Found:
    """A value that was read and is not in the log at the end."""
    for key, final in _finals(facts):
        gone = facts.read(key) - set(final)
        for value in sorted(gone):
            yield key, f"{value} was read and is not there"


def aborted_read(facts: Facts) -> Found:
    """A value that was read although every attempt to append it was refused (G1a)."""
    for key in facts.keys:
        read = facts.read(key)
        for batch in facts.of(key):
            found = read.intersection(batch.values)
            if batch.outcome == FAIL and found:
                yield key, f"{_listed(found)} was refused, and read"


def phantom(facts: Facts) -> Found:
    """A value that was read and never sent to this partition."""
    for key in facts.keys:
        sent = {value for batch in facts.of(key) for value in batch.values}
        for value in sorted(facts.read(key) - sent):
            yield key, f"{value} was read, and nobody has appended it"


def gap(facts: Facts) -> Found:
    """Offsets that are missing or repeated in the log at the end."""
    for poll in facts.polls:
        if not poll.is_final:
            continue
        offsets = [offset for offset, _, _ in poll.records]
        if offsets != list(range(poll.start, poll.start + len(offsets))):
            where = next(at for at, each in enumerate(offsets, poll.start) if at != each)
            yield poll.key, f"the log has not the offset {where}, or not in its place"


def inner_poll_skip(facts: Facts) -> Found:
    """Within one read: offsets that were passed over (int-poll-skip)."""
    for poll in facts.polls:
        for first, second in _neighbours(poll):
            if second > first + 1:
                yield poll.key, f"{poll.process} read {second} right after {first}"


def inner_nonmonotonic_poll(facts: Facts) -> Found:
    """Within one read: an offset not above the one before (int-nonmonotonic-poll)."""
    for poll in facts.polls:
        for first, second in _neighbours(poll):
            if second <= first:
                yield poll.key, f"{poll.process} read {second} right after {first}"


def _neighbours(poll: Poll) -> Iterator[tuple[int, int]]:
    offsets = [offset for offset, _, _ in poll.records]
    return pairwise([poll.start - 1, *offsets] if offsets else [])


def poll_skip(facts: Facts) -> Found:
    """From one read to the next of the same assignment: offsets that were passed over."""
    for last, poll in _consecutive(facts):
        if poll.records[0][0] > last + 1:
            yield poll.key, f"{poll.process} read up to {last}, then from {poll.records[0][0]} on"


def nonmonotonic_poll(facts: Facts) -> Found:
    """From one read to the next of the same assignment: a step back."""
    for last, poll in _consecutive(facts):
        if poll.records[0][0] <= last:
            yield poll.key, f"{poll.process} read up to {last}, then from {poll.records[0][0]} on"


def _consecutive(facts: Facts) -> Iterator[tuple[int, Poll]]:
    """Yield reads with the last offset of the read before, of the same process and assignment."""
    lasts: dict[tuple[str, str, int], int] = {}
    for poll in facts.polls:
        if not poll.records:
            continue
        place = (poll.key, poll.process, poll.assign)
        if place in lasts:
            yield lasts[place], poll
        lasts[place] = poll.records[-1][0]


def inner_send_order(facts: Facts) -> Found:
    """Values of one batch not at consecutive offsets (int-send-skip, int-nonmonotonic-send)."""
    for key in facts.keys:
        offsets = facts.offset_of(key)
        for batch in facts.of(key):
            found = [offsets[value] for value in batch.values if value in offsets]
            if len(found) == len(batch.values) and found != _run_of(found):
                yield key, f"the batch of {batch.values[0]} is at {_listed(found)}"


def _run_of(offsets: list[int]) -> list[int]:
    return list(range(offsets[0], offsets[0] + len(offsets)))


def nonmonotonic_send(facts: Facts) -> Found:
    """A producer's later append at a smaller offset than an earlier one."""
    for key in facts.keys:
        offsets = facts.offset_of(key)
        producers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for batch in facts.of(key):
            if batch.producer_id is not None and batch.values[0] in offsets:
                place = (batch.sequence or 0, offsets[batch.values[0]])
                producers[batch.producer_id].append(place)
        for producer_id, places in sorted(producers.items()):
            for (first, early), (second, late) in pairwise(sorted(places)):
                if late <= early:
                    yield (
                        key,
                        (
                            f"{producer_id}'s append {second} is at {late}, its append {first} at"
                            f" {early}"
                        ),
                    )


def realtime_order(facts: Facts) -> Found:
    """An append that began after another was acknowledged, and stands before it."""
    for key in facts.keys:
        offsets = facts.offset_of(key)
        moments: list[tuple[int, int, int, str]] = []
        for batch in facts.of(key):
            known = [offsets[value] for value in batch.values if value in offsets]
            if not known:
                continue
            moments.append((batch.invoked_ns, 1, min(known), batch.values[0]))
            if batch.acked_ns is not None:
                moments.append((batch.acked_ns, 0, max(known), batch.values[0]))
        yield from _out_of_order(key, moments)


def _out_of_order(key: str, moments: list[tuple[int, int, int, str]]) -> Found:
    highest, highest_value = -1, ""
    for _, is_begin, offset, value in sorted(moments):
        if is_begin and offset <= highest and value != highest_value:
            yield (
                key,
                (
                    f"{value} is at {offset}, and began after {highest_value} was acknowledged at"
                    f" {highest}"
                ),
            )
        elif not is_begin and offset > highest:
            highest, highest_value = offset, value


def stale_end(facts: Facts) -> Found:
    """A read, or an end that was told, without what was acknowledged or read before it began."""
    for key in facts.keys:
        moments: list[tuple[int, int, int, str]] = []
        for batch in facts.of(key):
            if batch.acked_ns is not None and batch.bases:
                last = min(batch.bases) + len(batch.values) - 1
                moments.append((batch.acked_ns, 0, last, batch.client))
        for poll in facts.polls_of(key):
            moments.append((poll.completed_ns, 0, poll.end - 1, poll.process))
            if poll.is_fresh:
                moments.append((poll.invoked_ns, 1, poll.end, poll.process))
        moments.extend(
            (each.invoked_ns, 1, each.end, each.process) for each in facts.ends if each.key == key
        )
        yield from _too_early_ends(key, moments)


def _too_early_ends(key: str, moments: list[tuple[int, int, int, str]]) -> Found:
    highest, teller = -1, ""
    for _, is_read, offset, process in sorted(moments):
        if is_read and offset <= highest:
            yield (
                key,
                (
                    f"{process} was told that the log ends at {offset}, after {teller} had seen"
                    f" {highest}"
                ),
            )
        elif not is_read and offset > highest:
            highest, teller = offset, process


def hw_regress(facts: Facts) -> Found:
    """A high watermark that falls, as one process sees it."""
    highest: dict[tuple[str, str], int] = {}
    for each in facts.ends:
        place = (each.key, each.process)
        if each.end < highest.get(place, 0):
            yield each.key, f"{each.process} saw the end at {highest[place]}, then at {each.end}"
        highest[place] = max(each.end, highest.get(place, 0))


def torn_batch(facts: Facts) -> Found:
    """Some values of a batch in the log at the end, and some not."""
    for key, final in _finals(facts):
        for batch in facts.of(key):
            there = [value for value in batch.values if value in final]
            if there and len(there) < len(batch.values):
                yield key, f"of the batch of {batch.values[0]} only {_listed(there)} is there"


def epoch_regress(facts: Facts) -> Found:
    """A leader epoch below that of an earlier offset, in one read."""
    for poll in facts.polls:
        known = [(offset, epoch) for offset, _, epoch in poll.records if epoch is not None]
        for (_, first), (offset, second) in pairwise(known):
            if second < first:
                yield poll.key, f"epoch {second} at offset {offset} comes after epoch {first}"


def stuck(facts: Facts) -> Found:
    """A call without an end, or a partition without an append, long after all is healed."""
    if facts.healed_ns is None or facts.ended_ns is None:
        yield "", "the run has not come to its end"
        return
    for each in facts.open_calls:
        since = max(each.invoked_ns, facts.healed_ns)
        if each.process not in facts.crashed and facts.ended_ns - since > STUCK_NS_MAX:
            yield each.process, f"its {each.call} got no answer"
    for key in facts.keys:
        acked = [each.acked_ns for each in facts.of(key) if each.acked_ns is not None]
        if all(at < facts.healed_ns for at in acked):
            yield key, "no append was acknowledged after all was healed"


def stream_skip(facts: Facts) -> Found:
    """A stream whose batches, the last try of each, are not the log from 0 on without a gap."""
    batches: dict[tuple[str, str], dict[int, Poll]] = defaultdict(dict)
    for poll in facts.polls:
        if poll.stream_batch is not None:
            client = poll.process.rpartition(".")[0]
            batches[(poll.key, client)][poll.stream_batch] = poll
    for (key, client), polls in sorted(batches.items()):
        position = 0
        for number, poll in sorted(polls.items()):
            if poll.start != position:
                yield key, f"{client}'s batch {number} begins at {poll.start}, not at {position}"
            position = poll.end


def _finals(facts: Facts) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each partition with the values of its log at the end, by value."""
    for key in facts.keys:
        final = facts.final(key)
        if final is not None:
            yield key, {value: offset for offset, value, _ in final}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))


Check = Callable[[Facts], Found]

CHECKS: Final[dict[str, Check]] = {
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "lost-write": lost_write,
    "unseen": unseen,
    "vanished": vanished,
    "aborted-read": aborted_read,
    "phantom": phantom,
    "gap": gap,
    "int-poll-skip": inner_poll_skip,
    "int-nonmonotonic-poll": inner_nonmonotonic_poll,
    "poll-skip": poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "int-send-order": inner_send_order,
    "nonmonotonic-send": nonmonotonic_send,
    "realtime-order": realtime_order,
    "stream-skip": stream_skip,
    "stale-end": stale_end,
    "hw-regress": hw_regress,
    "torn-batch": torn_batch,
    "epoch-regress": epoch_regress,
    "stuck": stuck,
}
"""Every anomaly by name. Cycles of writes (G0, G1c) are none here: no append is a transaction over
partitions."""


def find_anomalies(facts: Facts) -> list[Anomaly]:
    return [
        Anomaly(name, key, sentence)
        for name, check in CHECKS.items()
        for key, sentence in check(facts)
    ]

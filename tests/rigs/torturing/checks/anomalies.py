"""The anomalies that a log with Kafka's promises never shows, each as a function of the facts.

Each takes the facts of a whole run and yields what is wrong, in words. All are linear or n log n,
since offsets give the order. `CHECKS` names them all; after jepsen.tests.kafka, but stricter, as
offsets here have no gaps, a batch is one commit, and readers choose their own partitions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.rigs.torturing.checks.facts import Facts, Poll
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


def inner_poll(facts: Facts) -> Found:
    """Within one read, the last one of the whole log included: offsets that are passed over, or come
    again or in another order (int-poll-skip, int-nonmonotonic-poll)."""
    for poll in facts.polls:
        for at, (offset, _) in enumerate(poll.records, poll.start):
            if offset != at:
                yield poll.key, f"{poll.process} read {offset} where {at} was next"
                break


def poll(facts: Facts) -> Found:
    """From one read to the next of the same assignment: offsets that are passed over, or a step back
    (poll-skip, nonmonotonic-poll)."""
    nexts: dict[tuple[str, str, int], int] = {}
    for each in facts.polls:
        place = (each.key, each.process, each.assign)
        if each.records and nexts.setdefault(place, each.records[0][0]) != each.records[0][0]:
            words = f"{each.process} read up to {nexts[place]}, then from {each.records[0][0]} on"
            yield each.key, words
        if each.records:
            nexts[place] = each.end


def inner_send_order(facts: Facts) -> Found:
    """Values of one batch not at consecutive offsets (int-send-skip, int-nonmonotonic-send)."""
    for key in facts.keys:
        offsets = facts.offset_of(key)
        for batch in facts.of(key):
            found = [offsets[value] for value in batch.values if value in offsets]
            run = [*range(found[0], found[0] + len(found))] if found else []
            if len(found) == len(batch.values) and found != run:
                yield key, f"the batch of {batch.values[0]} is at {_listed(found)}"


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
                    words = f"append {second} is at {late}, its append {first} at {early}"
                    yield key, f"{producer_id}'s {words}"


Moments = list[tuple[int, int, int, str]]
"""When, whether somebody asks or is told, an offset, and who: who asks must not get an offset that is
no higher than the highest that anybody was told before."""


def _behind(moments: Moments) -> Iterator[str]:
    highest, teller = -1, ""
    for _, asks, offset, who in sorted(moments):
        if asks and offset <= highest:
            yield f"{who} got {offset}, and began after {teller} was told of {highest}"
        elif not asks and offset > highest:
            highest, teller = offset, who


def realtime_order(facts: Facts) -> Found:
    """An append that began after another was acknowledged, and stands before it."""
    for key in facts.keys:
        offsets = facts.offset_of(key)
        moments: Moments = []
        for batch in facts.of(key):
            known = [offsets[value] for value in batch.values if value in offsets]
            if known:
                moments.append((batch.invoked_ns, 1, min(known), batch.values[0]))
            if known and batch.acked_ns is not None:
                moments.append((batch.acked_ns, 0, max(known), batch.values[0]))
        yield from ((key, words) for words in _behind(moments))


def stale_end(facts: Facts) -> Found:
    """A read, or an end that was told, without what was acknowledged, read or told before it began."""
    for key in facts.keys:
        moments: Moments = []
        for batch in facts.of(key):
            if batch.acked_ns is not None and batch.bases:
                last = min(batch.bases) + len(batch.values) - 1
                moments.append((batch.acked_ns, 0, last, batch.client))
        for poll in facts.polls_of(key):
            moments.append((poll.completed_ns, 0, poll.end - 1, poll.process))
            if poll.is_fresh:
                moments.append((poll.invoked_ns, 1, poll.end, poll.process))
        yield from ((key, words) for words in _behind(moments))


def torn_batch(facts: Facts) -> Found:
    """Some values of a batch in the log at the end, and some not."""
    for key, final in _finals(facts):
        for batch in facts.of(key):
            there = [value for value in batch.values if value in final]
            if there and len(there) < len(batch.values):
                yield key, f"of the batch of {batch.values[0]} only {_listed(there)} is there"


def stuck(facts: Facts) -> Found:
    """A call without an end, or a partition without an append, long after all is healed."""
    if facts.healed_ns is None or facts.ended_ns is None:
        yield "", "the run has not come to its end"
        return
    for each in facts.open_calls:
        since = max(each.at_ns, facts.healed_ns)
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
            yield key, {value: offset for offset, value in final}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))


Check = Callable[[Facts], Found]

CHECKS: Final[dict[str, Check]] = {
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "unseen": unseen,
    "vanished": vanished,
    "aborted-read": aborted_read,
    "phantom": phantom,
    "int-poll": inner_poll,
    "poll": poll,
    "int-send-order": inner_send_order,
    "nonmonotonic-send": nonmonotonic_send,
    "realtime-order": realtime_order,
    "stream-skip": stream_skip,
    "stale-end": stale_end,
    "torn-batch": torn_batch,
    "stuck": stuck,
}
"""Every anomaly by name. What was acknowledged or read and is lost is unseen, vanished or torn at the
end, since the whole log is read there; that epochs rise along a log is I5 of fsck. Cycles of writes (G0, G1c) are none here: no append is a transaction over
partitions."""


def find_anomalies(facts: Facts) -> list[Anomaly]:
    return [
        Anomaly(name, key, sentence)
        for name, check in CHECKS.items()
        for key, sentence in check(facts)
    ]

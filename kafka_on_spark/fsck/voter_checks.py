"""Q1, Q2, Q7, Q8: the voters of the metadata log, held against each other.

Q1: an epoch has one leader. Q2: what a log proves committed is in every other log that goes so
far; a majority holds what the leader's proves; who follows a leader has no more than that. Q7: one
place of one epoch holds one write, after the same write, on all voters; who follows a leader has
the beginning of its log. Q8: who leads an epoch has a majority's votes in it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from kafka_on_spark.base.ids import QuorumEpoch
from kafka_on_spark.fsck.voter_trace import (
    UNKNOWN,
    BatchEnd,
    SeenBatch,
    VoterTrace,
    two_writes,
)
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch, RaftLog, has_write
from kafka_on_spark.metadata.quorum.voter_set import VoterKey, VoterSet


class VoterFlaw(NamedTuple):
    """Something that must not be, between voters.

    Attributes:
        invariant: Its id; None: something could not be checked.
        key: The voter that it is about; None: all.
        sentence: What was found.
    """

    invariant: str | None
    key: VoterKey | None
    sentence: str


def voter_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield how the histories of voters contradict each other, whenever each was read."""
    yield from _leader_flaws(traces)
    yield from _matching_flaws(traces)
    yield from _proof_flaws(traces)
    yield from _vote_flaws(traces)


def _leader_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    leaders: defaultdict[QuorumEpoch, set[VoterKey]] = defaultdict(set)
    for trace in traces:
        for epoch, found in trace.leaders.items():
            leaders[epoch] |= found
    for epoch, found in sorted(leaders.items()):
        if len(found) > 1:
            names = ", ".join(map(str, sorted(found)))
            yield VoterFlaw("Q1", None, f"epoch {epoch} has {len(found)} leaders: {names}")


def _matching_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    known: dict[BatchEnd, tuple[SeenBatch, VoterKey]] = {}
    for trace in traces:
        for end, batch in trace.seen.items():
            other, key = known.setdefault(end, (batch, trace.key))
            words = f"on voters {key} and {trace.key}"
            if other.write_id != batch.write_id or _differs(other.base_offset, batch.base_offset):
                yield VoterFlaw("Q7", trace.key, f"{two_writes(*end)}, {words}")
            elif _differs(other.epoch_before, batch.epoch_before):
                sentence = (
                    f"the batch of epoch {end[0]} that ends at {end[1]} follows one of epoch"
                    f" {other.epoch_before} and one of {batch.epoch_before}, {words}"
                )
                yield VoterFlaw("Q7", trace.key, sentence)


def _differs(one: int, other: int) -> bool:
    return UNKNOWN not in (one, other) and one != other


def _proof_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    logs = [(trace.key, trace.log) for trace in traces]
    for (key, log), (other, longer) in permutations(logs, 2):
        proved = log.batch_before(log.proved_end)
        if proved is None or longer.proved_end < log.proved_end or has_write(longer, proved):
            continue
        sentence = (
            f"what voter {key} proves committed up to {log.proved_end} is not what is in the log"
            f" of voter {other}"
        )
        yield VoterFlaw("Q2", other, sentence)


def _vote_flaws(traces: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield leaders that not enough voters voted for: one that did went back, or none did."""
    by_key = {trace.key: trace for trace in traces}
    for trace in traces:
        for epoch in sorted(trace.leaders):
            if trace.key not in trace.leaders[epoch] or epoch <= trace.known_above:
                continue
            voters = _voters_in(trace.log, epoch)
            if voters is None or not set(voters.keys) <= by_key.keys():
                continue  # who could have voted is not here
            if any(by_key[key].known_above >= epoch for key in voters.keys):
                continue
            votes = [key for key in voters.keys if trace.key in by_key[key].votes.get(epoch, ())]
            if not voters.is_majority(votes):
                names = ", ".join(map(str, votes)) or "nobody"
                sentence = f"it leads epoch {epoch} by the votes of {names}: no majority"
                yield VoterFlaw("Q8", trace.key, sentence)


def _voters_in(log: RaftLog, epoch: QuorumEpoch) -> VoterSet | None:
    """Return who votes in the election of an epoch; None: the log does not say any more. A no-op
    that names voters is that of a new generation, which they alone elect."""
    start = log.epoch_start(epoch)
    no_op = next((each for each in log.batches if each.base_offset == start), None)
    if start is None or no_op is None or no_op.kind is BatchKind.RUN:
        return None
    return no_op.voters or log.cut_to(start).voters


def committed_flaws(
    voters: VoterSet | None, batch: RaftBatch, traces: Sequence[VoterTrace], unread: int
) -> Iterator[VoterFlaw]:
    """Yield whether no majority holds what a log proves committed.

    Args:
        voters: The newest voters in that log; None: it names none.
        batch: The last batch that it proves committed.
        traces: The voters, read after that log was.
        unread: How many could not be read.
    """
    held = [each.key for each in traces if has_write(each.log, batch)]
    if voters is None or voters.is_majority(held):
        return
    proved_end = batch.end_offset
    names = ", ".join(map(str, held))
    if len(held) + unread >= voters.majority:
        sentence = (
            f"whether a majority holds the log up to {proved_end} is not known: of the voters that"
            f" could be read only {names} hold it"
        )
        yield VoterFlaw(None, None, sentence)
        return
    sentence = (
        f"the log is committed up to {proved_end}, and only {names} of"
        f" {len(voters.voters)} voters hold it: one went back, or was emptied"
    )
    yield VoterFlaw("Q2", None, sentence)


def following_flaws(leader: VoterTrace, others: Sequence[VoterTrace]) -> Iterator[VoterFlaw]:
    """Yield where the leader, read after `others`, has less than who follows it, or another log."""
    log, end = leader.log, leader.log.end_offset
    for other in others:
        if (other.epoch, other.leader) != (leader.epoch, leader.key):
            continue
        last = other.log.batches[-1:]
        if other.log.end_offset > end:
            sentence = (
                f"voter {other.key} follows it in epoch {leader.epoch} up to"
                f" {other.log.end_offset}, and its own log ends at {end}: it went back"
            )
            yield VoterFlaw("Q2", leader.key, sentence)
        elif not all(has_write(log, batch) for batch in last):
            sentence = (
                f"it follows voter {leader.key} in epoch {leader.epoch}, and what its log ends with"
                f" at {other.log.end_offset} is not in the leader's"
            )
            yield VoterFlaw("Q7", other.key, sentence)


def content_flaws(
    mine: Mapping[int, str], others: Mapping[int, str], key: VoterKey, of: VoterKey
) -> Iterator[VoterFlaw]:
    """Yield the committed batches of voter `key` whose records differ from those of voter `of`:
    both as digests by where a batch begins."""
    for base_offset in sorted(mine.keys() & others.keys()):
        if mine[base_offset] != others[base_offset]:
            sentence = f"the batch at {base_offset} has other records than on voter {of}"
            yield VoterFlaw("Q7", key, sentence)

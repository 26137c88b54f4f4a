"""Voters' tables for tests: the bootstrap batch, then batches by their epochs."""

from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    RaftLog,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
)


def key(node):
    return VoterKey(node, f"d{node}")


def voter(node):
    return Voter(key(node), f"/meta/{node}")


VOTERS = VoterSet.of(voter(each) for each in (0, 1, 2))
BOOTSTRAP = RaftBatch(0, 1, 0, "bootstrap", BatchKind.DECISION, VOTERS)


def log(*epochs, voters=VOTERS):
    """Return a log of the bootstrap batch and a batch for each of `epochs`; the first of each is
    its no-op."""
    batches, seen = [RaftBatch(0, 1, 0, "bootstrap", BatchKind.DECISION, voters)], set()
    for epoch in epochs:
        kind = BatchKind.DECISION if epoch in seen else BatchKind.NO_OP
        seen.add(epoch)
        end = len(batches)
        batches.append(RaftBatch(end, end + 1, epoch, f"{epoch}-{end}", kind))
    return RaftLog(tuple(batches))


def table(node, *epochs, epoch=None, vote=None, leader=None):
    """Return a voter's table, in `epoch` (the last batch's), with a vote and a leader in it."""
    found = log(*epochs)
    epoch = found.end.epoch if epoch is None else epoch
    votes = () if vote is None else ((key(vote), epoch),)
    leaders = () if leader is None else ((key(leader), epoch),)
    return VoterTable(key(node), epoch, votes, leaders, found)

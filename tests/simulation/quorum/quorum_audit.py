"""What `fsck` says of the voters' tables that a simulation has left: its rules, on their histories."""

from itertools import pairwise, takewhile

from kafka_on_spark.fsck.voter_trace import VoterCommit, VoterTrace, following_flaws, voter_flaws


def audit(world):
    """Return what is found in the tables of a world's voters, as pairs of an id and a sentence."""
    voters = world.checker.voters
    traces = [trace(each) for each in world.roots.values() if each.key in voters.keys]
    alone = [(each.invariant, each.sentence) for one in traces for each in one.findings.all()]
    flaws = [*voter_flaws(traces)]
    leader = max(traces, key=lambda each: (each.leader == each.key, each.epoch))
    if leader.leader == leader.key:
        flaws += following_flaws(leader, [each for each in traces if each is not leader])
    return alone + [(each.invariant, each.sentence) for each in flaws]


def trace(root):
    """Return a root's history, as its versions tell it."""
    found = VoterTrace(root.key)
    first = root.versions[0]
    found.take(VoterCommit(version=0, added=named(first.log.batches)))
    for before, after in pairwise(root.versions):
        found.take(commit_between(before, after))
    return found


def commit_between(before, after):
    pairs = zip(before.log.batches, after.log.batches, strict=False)
    kept = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return VoterCommit(
        version=after.version,
        quorum_epoch=after.quorum_epoch,
        votes=tuple(each for each in after.votes if each not in before.votes),
        leaders=tuple(each for each in after.leaders if each not in before.leaders),
        removed=tuple(named(before.log.batches[kept:])),
        added=named(after.log.batches[kept:]),
    )


def named(batches):
    return {f"{each.base_offset}-{each.write_id}": (each,) for each in batches}

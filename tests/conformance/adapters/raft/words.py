"""Vectors' words for voters, times and states, in ours: each id has one standard directory."""

from itertools import count

from kafka_on_spark.raft.states.timing import Moment
from kafka_on_spark.raft.voter_set import Voter, VoterKey, VoterSet

FETCH_MS = 50_000


def key_of(given):
    """Return the key of an id, or of an id and a directory (null: any)."""
    if given is None:
        return None
    if isinstance(given, list):
        return VoterKey(*given)
    return VoterKey(given, f"dir{given}")


def voters_of(ids):
    return VoterSet.of(Voter(key_of(each), f"/voters/{each}") for each in ids)


def listed(ids):
    return sorted(ids)


class Times:
    """The time of a vector: each timeout that is drawn is another one, so that it can be told."""

    def __init__(self):
        self.now_ms = 0
        self._drawn = count(10_000)
        self.election_ms = 10_000

    def moment(self):
        self.election_ms = next(self._drawn)
        return Moment(self.now_ms, self.election_ms, FETCH_MS)

"""Which voters there are, from a bootstrap list of roots that may be old.

Take the voters by the best log on any root that answers with the right cluster, ask a majority of
*those* voters, and go on while one has a better log that names others; done when a majority of a
set confirms it. By the best log, and not by the newest `VotersRecord`: what is committed is in it,
and another may end with a change of voters that came to nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_on_spark.errors import InconsistentClusterIdError
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.tables.voter_table import VoterTable
from kafka_on_spark.raft.voter_set import VoterKey, VoterSet


@dataclass(frozen=True, slots=True)
class FoundVoter:
    """What a root answered.

    Attributes:
        root: The root.
        cluster_id: Whose it is.
        key: Which voter, or former voter, it is.
        voters: The newest set of voters in its log; None: its log has none.
        log_end: Where its log ends.
    """

    root: str
    cluster_id: str
    key: VoterKey
    voters: VoterSet | None
    log_end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Discovery:
    """How far the voters are known.

    Attributes:
        voters: The set by the best log that names any; None: none does.
        unasked: Roots of that set that were not asked as yet.
        is_confirmed: Whether a majority of that set has answered, and had no better log.
    """

    voters: VoterSet | None
    unasked: tuple[str, ...]
    is_confirmed: bool


def found_voter(root: str, cluster_id: str, table: VoterTable) -> FoundVoter:
    """Return what a root's table says of the voters."""
    return FoundVoter(root, cluster_id, table.key, table.log.voters, table.log.end)


def newest_voters(tables: Iterable[VoterTable]) -> VoterSet | None:
    """Return the set of voters by the best log of `tables`; None: none names any."""
    found = [found_voter("", "", each) for each in tables]
    return _newest(found)


def discover(cluster_id: str, answers: Iterable[FoundVoter], asked: Iterable[str]) -> Discovery:
    """Return how far `answers` say which voters there are; `asked`: all roots that were asked.

    A root whose directory is not the voter's confirms nothing: it was emptied.

    Raises:
        InconsistentClusterIdError: A root is another cluster's.
    """
    found = list(answers)
    for each in found:
        if each.cluster_id != cluster_id:
            raise InconsistentClusterIdError(
                f"{each.root} belongs to cluster {each.cluster_id} and not to {cluster_id}: take it"
                " off the list"
            )
    newest = _newest(found)
    if newest is None:
        return Discovery(None, (), False)
    done = set(asked)
    unasked = tuple(each.root for each in newest.voters if each.root not in done)
    return Discovery(newest, unasked, newest.is_majority(each.key for each in found))


def _newest(found: list[FoundVoter]) -> VoterSet | None:
    named = [each for each in found if each.voters is not None]
    if not named:
        return None
    return max(named, key=lambda each: (each.log_end.epoch, each.log_end.offset)).voters


def check_cluster_ids(cluster_ids: Mapping[str, str]) -> str:
    """Return the cluster that all of the roots in `cluster_ids` belong to.

    Raises:
        InconsistentClusterIdError: They belong to several.
    """
    first, *others = cluster_ids.items()
    for root, cluster_id in others:
        if cluster_id != first[1]:
            raise InconsistentClusterIdError(
                f"{first[0]} belongs to cluster {first[1]} and {root} to {cluster_id}: name roots"
                " of one cluster"
            )
    return first[1]

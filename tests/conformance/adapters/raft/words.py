"""Vectors' words for voters and their logs, in ours: each id has one standard directory."""

from dataclasses import dataclass

from kafka_on_spark.metadata.quorum.raft import stand
from kafka_on_spark.metadata.quorum.voter_table import (
    RaftBatch,
    RaftLog,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
)


def key_of(given):
    """Return the key of an id, or of an id and a directory (null: any)."""
    if given is None:
        return None
    if isinstance(given, list):
        return VoterKey(*given)
    return VoterKey(given, f"dir{given}")


def voters_of(ids):
    return VoterSet.of(Voter(key_of(each), f"/voters/{each}") for each in ids)


def with_records(log, count, epoch):
    end = log.end_offset
    return log.appended(RaftBatch(end, end + count, epoch, f"{epoch}-{end}"))


@dataclass(frozen=True, slots=True)
class NamedLog(RaftLog):
    """A log whose voters are known without a batch: a vector's offsets count none that names them."""

    voters: VoterSet | None = None

    def __post_init__(self) -> None:
        named = self.voters
        RaftLog.__post_init__(self)
        object.__setattr__(self, "voters", named)


def log_up_to(offset, epoch, voters=None):
    log = NamedLog(voters=voters)
    return with_records(log, offset, epoch) if offset else log


def short_log(records, voters):
    log = NamedLog(voters=voters)
    for _ in range(records):
        log = with_records(log, 1, 0)
    return log


def standing(key, epoch, log):
    table = VoterTable(key, epoch - 1, log=log)
    return table.apply(stand(table, epoch))

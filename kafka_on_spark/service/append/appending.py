"""Placed → appended: one commit on the leader's table gives an append's records their offsets."""

from kafka_on_spark.log.batch import Batch
from kafka_on_spark.service.append.stages import AppendedPart, PlacedPart
from kafka_on_spark.service.replica.replica_operations import ReadBorders, append, no_borders


def append_placed(
    placed: PlacedPart,
    *,
    is_appended: bool,
    is_duplicate: bool,
    now_ms: int,
    puts: list[Batch] | None = None,
    read_borders: ReadBorders = no_borders,
) -> AppendedPart:
    """Commit a placed part to its leader's table, or find where it stands already.

    `is_appended`: an earlier try has appended it, so that it may stand there and be no duplicate,
    and the log need not end where a conditional append expected. `is_duplicate`: that try found it
    in the log. `puts`: as in `replica_operations.append`.

    Raises: as `replica_operations.append`.
    """
    appended = append(
        placed.log,
        placed.batch,
        placed.state,
        leader_epoch=placed.state.leader_epoch or placed.partition.leader_epoch,
        now_ms=now_ms,
        expected_offset=None if is_appended else placed.part.expected_offset,
        puts=puts,
        read_borders=read_borders,
    )
    return AppendedPart(
        placed=placed,
        batch=appended.batch,
        state=appended.state,
        is_duplicate=is_duplicate or (appended.is_duplicate and not is_appended),
        last=appended.last,
    )

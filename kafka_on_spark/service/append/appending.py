"""Placed → appended: one commit on the leader's table gives an append's records their offsets."""

from collections.abc import Callable
from functools import partial

from kafka_on_spark.controller.commands.producer_runs import check_not_fenced
from kafka_on_spark.log.batch import Batch, ProducerStamp
from kafka_on_spark.log.producer_state import may_have_forgotten
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.append.stages import AppendedPart, PlacedPart
from kafka_on_spark.service.replica.replica_operations import ReadBorders, append, no_borders

CatchUp = Callable[[], MetadataImage]
"""Returns an image with all that was committed before the call."""


def append_placed(
    placed: PlacedPart,
    *,
    catch_up: CatchUp,
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

    Raises: as `replica_operations.append`, `check_remembered` and `catch_up`.
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
        check_absent=partial(check_remembered, placed.batch.producer, catch_up),
    )
    return AppendedPart(
        placed=placed,
        batch=appended.batch,
        state=appended.state,
        is_duplicate=is_duplicate or (appended.is_duplicate and not is_appended),
        last=appended.last,
    )


def check_remembered(
    producer: ProducerStamp | None, catch_up: CatchUp, state: ReplicaState
) -> None:
    """Check, of a log that was read and has not an append, that it has not forgotten it either.

    What a log knows of a producer goes once the id has expired. The image that the append was
    placed by may be older than the log, and still have the id: so this looks at the newest one, and
    after the log was read. If the id expires later the commit conflicts with
    that of whoever forgets it.

    Raises:
        ProducerFencedError: A newer run of the producer has begun.
        UnknownProducerIdError: The id has expired.
        And as `catch_up`.
    """
    if producer is not None and may_have_forgotten(state):
        check_not_fenced(catch_up().producers, producer.producer_id, producer.producer_epoch)

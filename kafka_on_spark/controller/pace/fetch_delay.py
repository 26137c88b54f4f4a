"""When a partition whose fetch was refused is fetched again. For liveness only.

A back-off spares a root that does not answer, and the rounds that would wait for it; no decision
rests on it. It grows from refusal to refusal, ends with the first progress, and belongs to one
leadership: a newer one is tried at once. Source: AbstractFetcherThread.delayPartitions.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.pace.back_off import pause_ms
from kafka_on_spark.errors import NO_ERROR
from kafka_on_spark.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.log.follower.fetch_checks import FetchAction, after_refusal
from kafka_on_spark.metadata.image import MetadataImage

JITTER: Final = 0.2
"""A back-off is up to a fifth longer or shorter, as Kafka's for clients (KIP-580)."""


@dataclass(frozen=True, slots=True)
class FetchDelay:
    """Why one follower's fetch is left out for a while.

    Attributes:
        leader_epoch: The leadership that the refused fetch was planned under.
        refusal_count: Refusals in a row, 1 at least.
        until_ms: The end of the back-off, on the clock of the process that waits; None: no
            time helps, only a newer leadership does.
        inspect_at_ms: When an inspection may ask whether that is still so; it takes nothing.
    """

    leader_epoch: LeaderEpoch
    refusal_count: int
    until_ms: float | None
    inspect_at_ms: float = 0.0

    def remaining_ms(
        self, leader_epoch: LeaderEpoch, now_ms: int, *, is_inspection: bool = False
    ) -> float | None:
        """Return how long a fetch under `leader_epoch`, or an inspection, still waits: 0 not at
        all, None for ever."""
        if leader_epoch != self.leader_epoch:
            return 0
        until_ms = self.inspect_at_ms if is_inspection else self.until_ms
        return None if until_ms is None else max(0, until_ms - now_ms)


def is_delay_over(
    delay: FetchDelay, image: MetadataImage, key: PartitionKey, follower: BrokerId | None
) -> bool:
    """Return whether the metadata ends a back-off before its time.

    It does so by a newer leadership, or if the partition is deleted. A follower's back-off also
    ends if its broker is fenced: once the broker is back, the follower is fetched for at once.
    """
    partition = image.partition(key)
    if partition is None or partition.leader_epoch != delay.leader_epoch:
        return True
    return follower is not None and not image.brokers[follower].is_online


def backoff_ms(refusal_count: int, *, first_ms: int, max_ms: int, random: float) -> float:
    """Return the back-off after so many refusals in a row; `random` is in [0, 1)."""
    return pause_ms(refusal_count - 1, first_ms, max_ms) * (1 - JITTER + 2 * JITTER * random)


def delay_after(
    error_code: int,
    before: FetchDelay | None,
    *,
    asked_epoch: LeaderEpoch,
    current_epoch: LeaderEpoch | None,
    has_progressed: bool,
    now_ms: int,
    first_ms: int,
    max_ms: int,
    random: float,
) -> FetchDelay | None:
    """Decide how long a fetch is left out after its answer; None: not at all.

    `error_code`: of the answer, or NO_ERROR. `asked_epoch` is the leadership it was planned
    under, `current_epoch` the one known when the answer came (None: the partition is deleted).
    `has_progressed`: it copied records before it was refused, so that the count starts again.
    """
    if error_code == NO_ERROR or asked_epoch != current_epoch:
        return None  # a newer leadership is tried at once, whatever the older one's answer was
    is_in_a_row = before is not None and before.leader_epoch == asked_epoch and not has_progressed
    refusal_count = 1 + (before.refusal_count if before is not None and is_in_a_row else 0)
    action = after_refusal(error_code, asked_epoch=asked_epoch, current_epoch=current_epoch)
    inspect_at_ms = now_ms + backoff_ms(
        refusal_count, first_ms=first_ms, max_ms=max_ms, random=random
    )
    until_ms = None if action is FetchAction.WAIT_FOR_METADATA else inspect_at_ms
    return FetchDelay(asked_epoch, refusal_count, until_ms, inspect_at_ms)

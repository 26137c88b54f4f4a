"""I11: the runs of a producer have rising epochs, also over the times that its id has expired.

Apart from the replay, which asks it; audits of replicas ask which ids have expired and come back.
"""

from collections.abc import Collection, Mapping, Sequence

from kafka_on_spark.metadata.records import ProducerRecord, RemoveProducerRecord


class RunReplay:
    """Replays the runs of producers in the order of the metadata log."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._expired: dict[str, list[int]] = {}

    def begin(self, record: ProducerRecord) -> str | None:
        """Take a run that begins or goes on; return what is wrong with it."""
        known = self._epochs.get(record.producer_id, -1)
        is_renewal = record.renewed_at_ms is not None and record.producer_epoch == known
        self._epochs[record.producer_id] = record.producer_epoch
        if record.producer_epoch > known or is_renewal:
            return None
        return (
            f"a run of producer {record.producer_id!r} took epoch {record.producer_epoch} after"
            f" {known}"
        )

    def expire(self, record: RemoveProducerRecord) -> None:
        """Take the expiry of an id."""
        self._expired.setdefault(record.producer_id, []).append(record.producer_epoch)

    def expired_epoch(self, producer_id: str) -> int:
        """Return the highest epoch with which an id has expired; -1: it never has."""
        return max(self._expired.get(producer_id, ()), default=-1)

    def came_back(self, known: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return with which epochs those ids have expired that are among the `known` ones now."""
        return {each: tuple(epochs) for each, epochs in self._expired.items() if each in known}

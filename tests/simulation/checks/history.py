"""What clients were told, judged right after each answer (H1, H2, H4, H5, H7-H9)."""

from collections.abc import Sequence

from kafka_on_spark.base.ids import Offset, PartitionKey
from tests.simulation.checks.ledger import NOBODY_HAS, Ledger, Log, Moment, require
from tests.simulation.world.keyed import has_keyless

KEYS_ONLY = "I27 a compacted topic has keys only"


class History:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def position(self, key: PartitionKey) -> Moment:
        """Return what is known of now: what is invoked later must see it."""
        log = self.ledger.log(key)
        is_keyed = "compact" in self.ledger.image.settings(key.topic_id).policies
        return Moment(log.high_watermark_read, log.last_acked, log.unclean_generation, is_keyed)

    def _is_over(self, log: Log, generation: int) -> bool:
        """Return whether an unclean election has come between: nothing binds any more."""
        return log.unclean_generation != generation

    def on_ack(
        self,
        key: PartitionKey,
        base_offset: Offset,
        values: Sequence[int],
        *,
        begun: Moment,
        is_duplicate: bool,
    ) -> None:
        """Judge an acknowledgement: the records are committed, there, and in real time's order."""
        log = self.ledger.log(key)
        if self._is_over(log, begun.generation):
            return
        for offset, value in enumerate(values, base_offset):
            told = f"{key.partition}: {value} acked at {offset}"
            if _is_committed(log, offset, value, "H1 acked is committed", told):
                log.acked[offset] = value
        require(
            is_duplicate or not begun.is_compacted or not has_keyless(values),
            KEYS_ONLY,
            f"{key.partition}: {values} acked at {base_offset}",
        )
        require(
            is_duplicate or base_offset > begun.acked,
            "H7 real time order",
            f"{key.partition}: acked at {base_offset}, begun after {begun.acked} was acked",
        )
        log.last_acked = max(log.last_acked, base_offset + len(values) - 1)

    def on_refused(self, values: Sequence[int]) -> None:
        """Take note of an append that says it did nothing (H4)."""
        self.ledger.failed.update(values)
        for key, log in self.ledger.logs.items():
            for value in values:
                require(
                    value not in log.offset_of,
                    "H4 aborted read",
                    f"{value} was refused, and is committed in {key.partition}",
                )

    def on_end(
        self, key: PartitionKey, high_watermark: int, *, begun: Moment, generation: int
    ) -> None:
        """Judge an end that a reader was told of `generation`; `begun`: before it asked."""
        log = self.ledger.log(key)
        if generation > begun.generation or self._is_over(log, generation):
            return
        require(
            high_watermark > begun.acked,
            "H8 reads see what was acked",
            f"{key.partition}: ends at {high_watermark}, {begun.acked} was acked before",
        )
        require(
            high_watermark >= begun.high_watermark,
            "H9 the end never falls",
            f"{key.partition}: {high_watermark} after {begun.high_watermark}",
        )
        log.high_watermark_read = max(log.high_watermark_read, high_watermark)

    def on_read(
        self,
        key: PartitionKey,
        start: int,
        records: Sequence[tuple[int, int]],
        *,
        generation: int,
        end: int | None = None,
    ) -> None:
        """Judge records that a reader got from `start` on, as (offset, value) (H2, H5, I12, I27).

        `generation`: of the image that it read by. `end`: where what it read ends; None: behind the
        last record. Offsets are skipped only where compaction may have removed records by now.
        """
        log = self.ledger.log(key)
        if self._is_over(log, generation):
            return
        expected = start
        for offset, value in records:
            self._skipped(log, key, expected, offset)
            told = f"{key.partition}: read {value} at {offset}"
            _is_committed(log, offset, value, "H2 one value an offset", told)
            expected = offset + 1
        self._skipped(log, key, expected, expected if end is None else end)

    def _skipped(self, log: Log, key: PartitionKey, start: int, end: int) -> None:
        """Judge that a reader goes on at `end` where `start` would be next."""
        partition = self.ledger.image.partition(key)
        below = (0, 0)
        if partition is not None:
            now = partition.compaction
            below = (now.compacted_below, now.tombstones_below)
        kept = [at for at in range(start, end) if log.is_asked(at, *below)]
        told = f"{key.partition}: {end}, not {start}"
        require(start <= end and not kept, "H5 no skip, no step back", told)


def _is_committed(log: Log, offset: int, value: int, invariant: str, told: str) -> bool:
    """Require that `value` is what is committed at `offset`; False where that is not known."""
    committed = log.committed[offset][0] if offset < len(log.committed) else None
    if committed == NOBODY_HAS[0]:
        return False
    require(committed == value, invariant, f"{told}, committed there is {committed}")
    return True

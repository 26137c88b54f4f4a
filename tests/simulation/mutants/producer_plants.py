"""Commits to plant that forget producers, or let expire what lives; see `plants`."""

from kafka_on_spark.ids import Offset, ProducerEpoch
from kafka_on_spark.log.producers import ProducerEntry
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.metadata.records import (
    OffsetCommitRecord,
    ProducerRecord,
    RemoveProducerRecord,
)
from tests.simulation.checks import expiry, producers
from tests.simulation.mutants.stage import KEY

_CAUSE = "nothing saved for 10,080 minutes (offsets.retention.minutes)"


def _committed_with_producer(stage):
    """Commit a record of the producer p at offset 2."""
    batch = stage.batch(12, 2, sequence=4)
    for broker_id in (1, 2, 3):
        stage.add(broker_id, batch, "append" if broker_id == 1 else "append_fetched")


def header_dropped_and_forgotten(stage):
    """Retention takes the header of a producer's append, and enters nothing."""
    _committed_with_producer(stage)
    stage.high_watermark(3, log_start=3)
    stage.commit(1, "advance_log_start", log_start_offset=Offset(3), drop_below=Offset(3))


def producers_not_named(stage):
    """A commit that says nothing of producers names no producers file, where there was one."""
    known = {"p": ProducerEntry(producer_epoch=ProducerEpoch(1))}
    stage.commit(1, "fence_producer", producers=known)
    state = stage.table(1).state
    change = LogChange(
        operation="adopt",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
    )
    stage.disks.commit(stage.address(1), state.version + 1, change, number=0)


def producer_forgotten(stage):
    """A producers file leaves out a producer whose id has not expired."""
    known = {name: ProducerEntry(producer_epoch=ProducerEpoch(1)) for name in ("p", "q")}
    stage.commit(1, "fence_producer", producers=known)
    stage.commit(1, "fence_producer", producers={"q": known["q"]})


def living_id_expires(stage):
    """The id of a producer expires that has just appended."""
    stage.metadata(ProducerRecord(producer_id="p", producer_epoch=ProducerEpoch(0)))
    stage.checker.ledger.alive_at_ms["p"] = 0.0
    stage.metadata(
        RemoveProducerRecord(producer_id="p", producer_epoch=ProducerEpoch(0), cause="why not")
    )


def living_groups_offset_expires(stage):
    """The offset of a group expires that has just said where it is."""
    saved = {"group": "g", "topic_id": KEY.topic_id, "partition": 0, "leader_epoch": None}
    stage.metadata(OffsetCommitRecord(**saved, offset=Offset(1)))
    stage.checker.ledger.alive_at_ms["g"] = 0.0
    stage.metadata(OffsetCommitRecord(**saved, offset=None, cause=_CAUSE))


PRODUCERS_PLANTED = [
    (producers.KEPT, header_dropped_and_forgotten),
    (producers.KEPT, producer_forgotten),
    (producers.CARRIED_ON, producers_not_named),
    (expiry.SILENT, living_id_expires),
    (expiry.SILENT, living_groups_offset_expires),
]

"""Leaders that must be compacted before they are read, and followers that wait for it."""

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.upkeep_work import WorkDone
from kafka_on_spark.metadata.partition import Compaction
from tests.controller.worked_rounds import Worked


def alone(**fields):
    """Return two partitions whose leader is alone in the ISR, and must be compacted below 2."""
    compaction = Compaction(compacted_below=Offset(4), cleaned_below=Offset(2))
    given = {"high_watermark": Offset(4), "high_watermark_epoch": 5, "log_end_offset": Offset(4)}
    return Worked(2, **{"isr": "1", **given, "compaction": compaction, **fields})


def test_who_waits_for_it_has_it_done_to_its_end():
    worked = alone()

    worked.upkeep.finish_compaction(worked.keys)

    assert [(each.works, each.work_ms_max) for each in worked.done] == [(("compact",), None)] * 2


def test_followers_that_wait_for_it_are_compacted_with_their_leader_for_a_while():
    worked = alone()
    waiting = {worked.keys[1]: [3]}
    worked.work = lambda order: WorkDone(count=1, is_left=order.is_of_leader)

    assert worked.upkeep.compact_followers(waiting)

    assert [(each.key.partition, each.address.broker_id) for each in worked.done] == [
        (1, 1),
        (1, 3),
    ]
    assert all(each.work_ms_max and each.works == ("compact",) for each in worked.done)
    worked.work = lambda order: WorkDone(count=1, is_left=not order.is_of_leader)
    assert not worked.upkeep.compact_followers(waiting)
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("not now"))
    assert not worked.upkeep.compact_followers(waiting)

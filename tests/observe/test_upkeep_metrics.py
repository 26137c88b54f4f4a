"""Figures of logs and their upkeep: Kafka's names, and each with what it says."""

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.upkeep_report import UpkeepTotals
from kafka_on_spark.log.upkeep_work import UpkeepResult, WorkDone
from kafka_on_spark.observe.log_descriptions import (
    CompactedPart,
    LogDescription,
)
from kafka_on_spark.observe.metric import HELP
from kafka_on_spark.observe.state_metrics import upkeep_metrics
from tests.builders import TOPIC, TOPIC_ID, image_of, partition

KEY = PartitionKey(TOPIC_ID, 0)
IMAGE = image_of(partition("1 2 3"))


def log(broker_id, **fields):
    given = {"plain_segments": 3, "plain_bytes": 300, "merged_segments": 1, "merged_bytes": 50}
    return LogDescription(topic=TOPIC, partition=0, broker_id=broker_id, **{**given, **fields})


def compacted(ratio):
    return CompactedPart(
        cleaner_offset=0,
        target_offset=0,
        tombstones_below=0,
        first_dirty_offset=0,
        first_uncleanable_offset=0,
        clean_bytes=0,
        dirty_bytes=0,
        cleanable_ratio=ratio,
    )


def figures(logs, totals=None):
    totals = totals or UpkeepTotals()
    metrics = upkeep_metrics(logs, totals)
    assert {(each.type, each.name) for each in metrics} <= HELP.keys()
    found = {
        (each.name, *(str(value) for value in each.labels.values())): each.value for each in metrics
    }
    assert len(found) == len(metrics), "names and labels tell each figure from all others"
    return found


def test_a_log_has_kafkas_figures_and_ours():
    found = figures([log(1, log_start_offset=5, log_end_offset=9)])

    assert found["Size", TOPIC, "0", "1"] == 350
    assert found["NumLogSegments", TOPIC, "0", "1"] == 4
    assert found["NumMergedSegments", TOPIC, "0", "1"] == 1
    assert found["LogStartOffset", TOPIC, "0", "1"] == 5
    assert found["LogEndOffset", TOPIC, "0", "1"] == 9


def test_a_log_that_could_not_be_looked_at_is_a_figure_and_no_zeros():
    found = figures([log(1, error="away")])

    assert found["Unreadable", TOPIC, "0", "1", "away"] == 1
    assert ("Size", TOPIC, "0", "1") not in found
    assert not any(TOPIC in name for name in figures([log(1, is_made=False)]))


def test_a_broker_has_the_ratio_of_its_dirtiest_log():
    logs = [log(1, compacted=compacted(0.25)), log(2, compacted=compacted(0.5)), log(3)]

    found = figures(logs)

    assert [found["max-dirty-percent", str(each)] for each in (1, 2, 3)] == [25, 50, 0]


def test_what_was_done_is_summed_by_kind():
    totals = UpkeepTotals()
    merged = WorkDone(count=2, what="merges", size_bytes=100, written_bytes=40)
    failed = WorkDone().failed(CorruptLogError("broken"))
    for each in (merged, merged, failed):
        totals.take([UpkeepResult(key=KEY, broker_id=BrokerId(1), done=(("merge", each),))])

    total = totals.by_kind()["merge"]

    assert (total.count, total.size_bytes, total.written_bytes, total.failures) == (4, 200, 80, 1)

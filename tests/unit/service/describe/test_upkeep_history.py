"""The history of upkeep: decisions with causes, and what the commits of a replica's table did."""

from dataclasses import replace

import pytest

from kafka_on_spark.audit.history import FileEntry, TableCheckpoint, TableCommit, TableDamage
from kafka_on_spark.controller.commands.expiry import expire
from kafka_on_spark.controller.partitions.log_start import raise_log_start
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.compaction import Compaction
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import OffsetCommitRecord, ProducerRecord
from kafka_on_spark.service.describe.log_descriptions import DueUpkeep, LogDescription
from kafka_on_spark.service.describe.partition_history import partition_history
from kafka_on_spark.service.describe.partition_logs import partition_logs
from kafka_on_spark.service.describe.upkeep_history import (
    ReplicaEvents,
    decisions,
    replica_events,
    upkeep_history,
)
from tests.builders import TOPIC, TOPIC_ID, address
from tests.unit.service.lives import BEGIN_MS, life

KEY = PartitionKey(TOPIC_ID, 0)


def file(name, base, end, size, records=None):
    return FileEntry(
        path=name,
        size_bytes=size,
        values={"base_offset": str(base), "end_offset": str(end)},
        record_count=end - base if records is None else records,
        timestamp_min_us=0,
        timestamp_max_us=0,
        time_ms=0,
    )


A, B, AB, ABC = (
    file("a", 0, 2, 10),
    file("b", 2, 4, 20),
    file("ab", 0, 4, 12),
    file("c", 0, 4, 5, 1),
)


def commit(version, operation, *adds, removes=(), at=0):
    return TableCommit(
        version=version,
        operation=operation,
        adds=adds,
        removes=removes,
        time_ms=BEGIN_MS + 1000 * at,
    )


LIFE = (
    commit(0, None),
    commit(1, "append", A, at=1),
    commit(2, "append", B, at=2),
    commit(3, "merge", AB, removes=("a", "b"), at=3),
    commit(4, "compact", ABC, removes=("ab",), at=4),
    commit(5, "compact", at=5),
    commit(6, "advance_log_start", removes=("c",), at=6),
)


class Archive:
    def __init__(self, *steps, error=None):
        self._steps = steps
        self._error = error

    def steps(self, address, *, is_deep):
        yield from self._steps
        if self._error is not None:
            raise self._error


def events_of(*steps, **options):
    return replica_events(address(1), Archive(*steps, **options))


def retained_life():
    begun = life("1 2", "1 2").at(1).append(10).at(2)
    raised = raise_log_start(begun.image, KEY, Offset(4), "retention deletes 4 records below 4")
    begun.commit(*raised.records).at(3)
    raised = raise_log_start(begun.image, KEY, Offset(5), "records deleted by request")
    begun.commit(*raised.records).at(4)
    decided = Compaction(compacted_below=Offset(8))
    return begun.change(PartitionChange(compaction=decided), "compacted below 8")


def test_the_commits_of_a_replica_tell_what_it_replaced():
    found = events_of(*LIFE)

    assert [(each.kind, each.time.second) for each in found.events] == [
        ("merge", 3),
        ("compact", 4),
        ("log start", 6),
    ]
    merge, compact, dropped = found.events
    assert (merge.files_before, merge.files_after) == (2, 1)
    assert (merge.bytes_before, merge.bytes_after) == (30, 12)
    assert (merge.start_offset, merge.end_offset) == (0, 4)
    assert str(merge) == "merge: 2 files (30 bytes) became 1 file (12 bytes)"
    assert str(compact) == "compact: 1 file (12 bytes) became 1 file (5 bytes), 3 records fewer"
    assert str(dropped) == "log start: 1 file (5 bytes) left the log, 1 record fewer"
    assert (found.error, found.is_complete) == (None, True)


def test_where_old_commits_are_gone_the_rest_is_told_and_that_it_is_the_rest():
    checkpoint = TableCheckpoint(version=3, files=(AB,), counters={}, configuration={})

    found = events_of(checkpoint, *LIFE[4:])

    assert [(each.kind, each.bytes_before) for each in found.events] == [
        ("compact", 12),
        ("log start", 5),
    ]
    assert not found.is_complete


@pytest.mark.parametrize(
    "steps, error",
    [
        ([*LIFE[:4], TableDamage(version=4, sentence="it is cut")], "it is cut"),
        ([TableDamage(version=0, sentence="a checkpoint", is_checkpoint=True), *LIFE[:4]], None),
    ],
)
def test_a_damaged_commit_is_told_and_the_others_are_read(steps, error):
    found = events_of(*steps)

    assert [each.kind for each in found.events] == ["merge"]
    assert found.error == error


def test_a_table_that_does_not_answer_is_told_as_such():
    assert events_of(error=KafkaStorageError("away")).error == "away"


def test_decisions_are_told_with_their_causes_and_offsets():
    events = decisions(retained_life().batches)

    assert [(each.kind, each.start_offset, each.end_offset) for each in events] == [
        ("retention", 0, 4),
        ("delete-records", 4, 5),
        ("compaction", 0, 8),
    ]
    assert [each.time.second for each in events] == [2, 3, 4]
    assert events[2].cause == "compacted below 8"
    assert all(each.broker_id is None for each in events)


def test_expiry_of_producer_ids_and_offsets_is_told():
    begun = life("1 2").at(1)
    begun.commit(
        ProducerRecord(producer_id="p", producer_epoch=0, renewed_at_ms=BEGIN_MS),
        OffsetCommitRecord(
            group="g", topic_id=TOPIC_ID, partition=0, offset=Offset(0), leader_epoch=0
        ),
        OffsetCommitRecord(
            group="h", topic_id=TOPIC_ID, partition=0, offset=Offset(0), leader_epoch=0
        ),
    )
    removed = OffsetCommitRecord(
        group="h",
        topic_id=TOPIC_ID,
        partition=0,
        offset=None,
        leader_epoch=None,
        cause="by request",
    )
    begun.at(2).commit(removed).at(3)
    begun.commit(*expire(begun.image, BEGIN_MS + 10**12).records)

    assert {(each.kind, each.topic, each.partition) for each in decisions(begun.batches)} == {
        ("producer expiry", "", None),
        ("offset expiry", TOPIC, 0),
    }
    of_topic = decisions(begun.batches, frozenset({TOPIC_ID}))
    assert [each.kind for each in of_topic] == ["offset expiry"]
    assert decisions(begun.batches, frozenset({"another"})) == []


def test_the_history_is_in_order_of_time_and_of_the_past_only_and_says_what_was_not_read():
    begun = retained_life()
    addresses = [address(1), address(2), replace(address(1), broker_id=3)]
    found = [events_of(*LIFE), ReplicaEvents(error="away"), ReplicaEvents(is_complete=False)]

    decided = decisions(begun.batches)
    history = upkeep_history(begun.image, decided, addresses, lambda _: found)
    past = upkeep_history(begun.image, decided, addresses, lambda _: found, is_past=True)

    assert [(each.time.second, each.kind) for each in history.events] == [
        (2, "retention"),
        (3, "delete-records"),
        (3, "merge"),
        (4, "compaction"),
        (4, "compact"),
        (6, "log start"),
    ]
    assert past.events == history.events[:-1]
    assert history.unread == (f"{TOPIC}-0 on broker 2: away",)
    assert history.incomplete == (f"{TOPIC}-0 on broker 3",)


def test_entries_of_the_history_say_what_changed_and_who_committed_it():
    entries = partition_history(retained_life().batches, TOPIC_ID, 0)

    assert [(each.is_deletion, each.is_compaction) for each in entries[-3:]] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert [each.compaction.compacted_below for each in entries[-2:]] == [0, 8]


def test_a_partitions_logs_have_what_last_moved_their_start_and_their_compaction():
    begun = retained_life()
    late = DueUpkeep(kind="log start", count=1), DueUpkeep(kind="compact", count=1)
    log = LogDescription(topic=TOPIC, partition=0, broker_id=1, due=late)
    other = replace(log, partition=1)
    entries = partition_history(begun.batches)

    [found] = partition_logs(begun.image, [KEY], entries, [log, other])

    assert (found.log_start_offset, found.high_watermark) == (5, 10)
    assert found.log_start.cause == "records deleted by request"
    assert found.compacted.cause == "compacted below 8"
    assert found.compaction.compacted_below == 8
    [replica] = found.replicas
    assert [each.since_ms for each in replica.due] == [BEGIN_MS + 3000, BEGIN_MS + 4000]


def test_a_partition_that_was_made_again_begins_anew():
    begun = retained_life()
    entries = partition_history(begun.batches, TOPIC_ID, 0)
    deleted = replace(entries[-1], replicas=())
    again = replace(entries[0], time=entries[-1].time)

    [found] = partition_logs(begun.image, [KEY], [*entries, deleted, again], [])

    assert (found.log_start, found.compacted) == (None, None)

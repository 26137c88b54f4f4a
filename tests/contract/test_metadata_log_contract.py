"""The contract of MetadataLog, for the fake and for the one on Delta."""

import pytest

from kafka_on_spark.base.errors import CommitConflictError, InconsistentClusterError
from kafka_on_spark.base.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    LeaderChangeRecord,
    Stamp,
    VotersRecord,
)
from tests.builders import BEGINNING

STAMP = Stamp(time_ms=1_700_000_000_123)
CONTROLLER = Stamp(
    time_ms=5, controller_id="c1", controller_epoch=ControllerEpoch(3), application_id="local-1"
)


def at(place):
    """Return an offset, counted from the first decision."""
    return Offset(BEGINNING + place)


def settings(*names):
    return tuple(
        ConfigRecord(topic_id=None, config_name=name, config_value="1", cause="a test")
        for name in names
    )


def test_a_new_log_has_no_decision(metadata_logs):
    first = metadata_logs().read(from_offset=Offset(0))

    assert [type(each) for batch in first for each in batch.records] == [
        VotersRecord,
        LeaderChangeRecord,
    ]
    assert metadata_logs().read(from_offset=at(0)) == []
    assert metadata_logs().newest_snapshot() is None


def test_batches_are_read_as_they_were_appended(metadata_logs):
    log = metadata_logs()
    first = log.append((ClusterRecord(cluster_id="c"),), STAMP, expected_offset=at(0))
    second = log.append(settings("a", "b", "c"), CONTROLLER, expected_offset=at(1))

    assert (second.base_offset, second.end_offset) == (at(1), at(4))
    for reader in (log, metadata_logs()):
        assert reader.read(from_offset=at(0)) == [first, second]
        assert reader.read(from_offset=at(1)) == [second]
        assert reader.read(from_offset=at(4)) == []


def test_append_below_the_end_is_a_conflict_and_changes_nothing(metadata_logs):
    winner, loser = metadata_logs(), metadata_logs()
    loser.read(from_offset=at(0))
    won = winner.append(settings("a"), STAMP, expected_offset=at(0))

    with pytest.raises(CommitConflictError):
        loser.append(settings("b"), STAMP, expected_offset=at(0))

    assert loser.read(from_offset=at(0)) == [won]


def test_append_above_the_end_is_a_conflict(metadata_logs):
    with pytest.raises(CommitConflictError):
        metadata_logs().append(settings("a"), STAMP, expected_offset=at(3))


def test_log_that_went_back_stops_everything(metadata_logs):
    log = metadata_logs()
    log.append(settings("a"), STAMP, expected_offset=at(0))

    with pytest.raises(InconsistentClusterError):
        log.read(from_offset=at(2))


def snapshot(*names, cluster_id="a-cluster"):
    return (ClusterRecord(cluster_id=cluster_id), *settings(*names))


@pytest.fixture
def long_logs(metadata_logs):
    """The same log, with twelve records in three batches."""
    log = metadata_logs()
    for start, names in ((0, "abcdefg"), (7, "hi"), (9, "jkl")):
        log.append(settings(*names), STAMP, expected_offset=at(start))
    return metadata_logs


def test_newest_snapshot_ends_at_its_end_offset(long_logs):
    log = long_logs()
    log.write_snapshot(snapshot("a"), STAMP, at(7))
    log.write_snapshot(snapshot("b", "c"), STAMP, at(12))
    log.write_snapshot(snapshot("a"), STAMP, at(9))

    newest = long_logs().newest_snapshot()

    assert (newest.end_offset, newest.records) == (at(12), snapshot("b", "c"))


def test_snapshot_of_the_past_is_the_newest_that_is_old_enough(long_logs):
    log = long_logs()
    log.write_snapshot(snapshot("a"), STAMP, at(7))
    log.write_snapshot(snapshot("b", "c"), STAMP, at(12))

    assert log.newest_snapshot(to_offset=at(12)).end_offset == at(12)
    assert log.newest_snapshot(to_offset=at(11)).end_offset == at(7)
    assert log.newest_snapshot(to_offset=at(6)) is None


def test_a_snapshot_above_the_logs_end_is_passed_over(long_logs):
    log = long_logs()
    log.write_snapshot(snapshot("a"), STAMP, at(7))
    log.write_snapshot(snapshot("b"), STAMP, at(13))

    assert long_logs().newest_snapshot().end_offset == at(7)
    assert log.newest_snapshot(to_offset=at(20)).end_offset == at(7)


def test_a_snapshot_of_another_cluster_is_passed_over(long_logs):
    log = long_logs()
    log.write_snapshot(snapshot("a"), STAMP, at(7))
    log.write_snapshot(snapshot("b", cluster_id="another"), STAMP, at(12))

    assert long_logs().newest_snapshot().end_offset == at(7)


def test_batches_are_read_up_to_an_offset_and_never_in_part(metadata_logs):
    log = metadata_logs()
    first = log.append(settings("a", "b"), STAMP, expected_offset=at(0))
    second = log.append(settings("c", "d"), STAMP, expected_offset=at(2))

    assert log.read(from_offset=at(0), to_offset=at(4)) == [first, second]
    assert log.read(from_offset=at(0), to_offset=at(3)) == [first]
    assert log.read(from_offset=at(2), to_offset=at(2)) == []

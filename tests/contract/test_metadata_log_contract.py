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


def test_append_below_or_above_the_end_is_a_conflict_and_changes_nothing(metadata_logs):
    winner, loser = metadata_logs(), metadata_logs()
    loser.read(from_offset=at(0))
    won = winner.append(settings("a"), STAMP, expected_offset=at(0))

    for place in (0, 3):
        with pytest.raises(CommitConflictError):
            loser.append(settings("b"), STAMP, expected_offset=at(place))

    assert loser.read(from_offset=at(0)) == [won]


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


def test_the_newest_snapshot_is_found_and_of_the_past_the_newest_that_is_old_enough(long_logs):
    log = long_logs()
    for names, end in (("a", 7), ("bc", 12), ("a", 9)):
        log.write_snapshot(snapshot(*names), STAMP, at(end))

    newest = long_logs().newest_snapshot()

    assert (newest.end_offset, newest.records) == (at(12), snapshot("b", "c"))
    found = [log.newest_snapshot(to_offset=at(each)) for each in (12, 11, 6)]
    assert [each and each.end_offset for each in found] == [at(12), at(9), None]


@pytest.mark.parametrize("end, cluster_id", [(13, "a-cluster"), (12, "another")])
def test_a_snapshot_above_the_logs_end_or_of_another_cluster_is_passed_over(
    long_logs, end, cluster_id
):
    log = long_logs()
    log.write_snapshot(snapshot("a"), STAMP, at(7))
    log.write_snapshot(snapshot("b", cluster_id=cluster_id), STAMP, at(end))

    assert long_logs().newest_snapshot().end_offset == at(7)
    assert log.newest_snapshot(to_offset=at(20)).end_offset == at(7)


def test_batches_are_read_up_to_an_offset_and_never_in_part(metadata_logs):
    log = metadata_logs()
    first = log.append(settings("a", "b"), STAMP, expected_offset=at(0))
    second = log.append(settings("c", "d"), STAMP, expected_offset=at(2))

    assert log.read(from_offset=at(0), to_offset=at(4)) == [first, second]
    assert log.read(from_offset=at(0), to_offset=at(3)) == [first]
    assert log.read(from_offset=at(2), to_offset=at(2)) == []

"""A decision's file may be put before it is decided, and is named by that very decision alone."""

import os

import pytest

from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.quorum.quorum_log import EARLY_MS_MAX
from kafka_on_spark.metadata.records import ClusterRecord, Stamp
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import BEGINNING

RECORDS = [ClusterRecord(cluster_id="cluster", cause="expected")]
OTHERS = [ClusterRecord(cluster_id="cluster", cause="another")]
STAMP = Stamp(time_ms=10_000)


@pytest.fixture
def log(tmp_path):
    return create_metadata_log(str(tmp_path), StorageOptions(), "cluster")


def unnamed_of(log):
    """Return how many files lie beside the log that it does not name."""
    named = {file.path for file in log.voter_log._delta.active_files()}
    return len({name for name in os.listdir(log.uri) if name.endswith(".parquet")} - named)


# fmt: off
CASES = [  # what is decided after it           the decision's stamp                                 is the early file named
    pytest.param(RECORDS,           STAMP,                                               True,  id="what was expected"),
    pytest.param(RECORDS,           Stamp(time_ms=10_000 + EARLY_MS_MAX),                True,  id="some moments later"),
    pytest.param(OTHERS,            STAMP,                                               False, id="something else"),
    pytest.param(RECORDS * 2,       STAMP,                                               False, id="more than was expected"),
    pytest.param(RECORDS,           Stamp(time_ms=10_001 + EARLY_MS_MAX),                False, id="much later"),
    pytest.param(RECORDS,           Stamp(time_ms=9_999),                                False, id="by a clock that was set back"),
    pytest.param(RECORDS,           Stamp(time_ms=10_000, controller_id="c", controller_epoch=1), False, id="by a controller"),
]
# fmt: on


@pytest.mark.parametrize("records, stamp, is_named", CASES)
def test_an_early_file_is_named_by_the_decision_that_was_expected_alone(
    log, records, stamp, is_named
):
    log.read(from_offset=0)
    log.put_early(RECORDS, STAMP, expected_offset=BEGINNING)
    log.append(records, stamp, expected_offset=BEGINNING)

    [decided] = log.read(from_offset=BEGINNING)
    assert decided.records == tuple(records)
    assert decided.stamp == (STAMP if is_named else stamp)
    assert unnamed_of(log) == (0 if is_named else 1)


def test_an_early_file_is_not_named_at_another_place(log):
    log.read(from_offset=0)
    log.put_early(RECORDS, STAMP, expected_offset=BEGINNING)
    end = log.append(OTHERS, STAMP, expected_offset=BEGINNING).end_offset
    log.append(RECORDS, STAMP, expected_offset=end)

    assert [each.records for each in log.read(from_offset=BEGINNING)] == [
        tuple(OTHERS),
        tuple(RECORDS),
    ]
    assert unnamed_of(log) == 1


def test_a_log_that_has_gone_on_takes_no_early_file(log):
    log.read(from_offset=0)
    log.put_early(RECORDS, STAMP, expected_offset=BEGINNING + 1)

    assert unnamed_of(log) == 0

"""Bytes of a replica's newest commit changed: no log that proves itself is another."""

import pytest

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import HEADER
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.segments import HEADER_SCHEMA
from kafka_on_spark.log.state import proves_complete
from kafka_on_spark.store.delta.delta_files import TableDamage
from kafka_on_spark.store.delta.table_history import commit_step
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions
from tests import forging
from tests.builders import NOW_MS, address, partition, staged, stamp

SAMPLED = 11
"""Every byte takes a minute; a prime meets all kinds of them."""


@pytest.fixture
def written(tmp_path):
    """Return a replica's address, its log, and its folder."""
    root = tmp_path / "root"
    root.mkdir()
    options = StorageOptions(None)
    directory_id = prepare_root(str(root), "cluster", BrokerId(1), options).directory_id
    place = address(1, root=str(root), directory_id=directory_id)
    log = ReplicaLog.create(place, options)
    state = log.load()
    adopt = operations.adopt(state, leader_epoch=3, truncate_to=None, floor=Offset(0))
    state = log.commit(state, adopt)
    for name in "abc":
        given = staged(name, "2 1", epoch=3, producer=stamp(ord(name)))
        change = operations.append(state, given, leader_epoch=3, now_ms=NOW_MS)
        state = log.commit(state, change)
    [folder] = root.glob("*/*/_delta_log")
    return place, state, folder.parent


def meaning(batch):
    """Return a batch without what copies and deep audits check: sizes, times, paths."""
    digests = [each.digest for each in batch.segments]
    counts = [each.record_count for each in batch.segments]
    return (
        batch.base_offset, batch.record_count, batch.leader_epoch, batch.partition_count,
        batch.producer, batch.appended_at_ms, batch.has_append_time, digests, counts,
    )  # fmt: skip


def test_no_changed_byte_of_a_commit_makes_another_log_that_proves_itself(written):
    place, state, folder = written
    register = partition("1", epoch=3, hw=9, hw_epoch=3, hw_chain=state.chain_digest, leo=9)
    path = forging.commit_files(folder)[-1]
    content = path.read_bytes()
    proven = refused = 0
    for at in range(0, len(content), SAMPLED):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        try:
            found = ReplicaLog(place, StorageOptions(None)).load()
        except KafkaOnSparkError:
            refused += 1
            continue
        if proves_complete(found, register):
            proven += 1
            assert list(map(meaning, found.batches)) == list(map(meaning, state.batches)), at
    path.write_bytes(content)
    assert proven > 0
    assert refused > len(content) // SAMPLED // 3


def test_the_audit_knows_what_a_header_says():
    assert frozenset(HEADER_SCHEMA.names) == HEADER


def test_a_changed_byte_in_the_name_of_what_a_commit_says_is_found(written):
    """Readers pass over what they don't know, and see a log without it."""
    _, _, folder = written
    content = forging.commit_files(folder)[-1].read_bytes()
    for name in (b'"add"', b'"dataChange"', b'"txn"', b'"stats"', b'"appId"', b'"size"'):
        assert isinstance(
            commit_step(content.replace(name, name[:-2] + b'~"'), 5, "p"), TableDamage
        )
    assert not isinstance(commit_step(content, 5, "p"), TableDamage)


def test_a_table_of_another_format_is_refused_in_a_sentence_and_not_called_bad(written):
    place, _, folder = written

    def as_of_old(action):
        if "metaData" in action:
            action["metaData"]["configuration"]["kos.format.version"] = "1"

    forging.edit_actions(forging.commit_files(folder)[0], as_of_old)
    forging.without_checkpoints(folder)

    with pytest.raises(
        KafkaStorageError, match="has format 1, this version reads 2: create it again"
    ):
        ReplicaLog(place, StorageOptions(None)).load()

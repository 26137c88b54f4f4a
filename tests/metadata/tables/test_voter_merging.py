"""A voter merges what its own log proves committed: what may be cut stays, and others still copy it."""

import pytest

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.metadata.quorum.raft import adopt, append, fetch
from kafka_on_spark.metadata.quorum.voter_table import BatchKind, TableChange
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.store.roots import StorageOptions
from tests.contract.voter_roots import delta_roots
from tests.voter_fakes import STAMP, key_of, settings_of

COUNT = 10


@pytest.fixture
def roots(tmp_path, monkeypatch):
    monkeypatch.setattr(merge_tiers, "FAN_IN", 1 + COUNT)
    roots = delta_roots(str(tmp_path), StorageOptions(), monkeypatch)
    leader = roots.open(0)
    for number in range(COUNT):
        decide(leader, f"decision-{number}")
    return roots


def decide(log, name):
    table = log.load()
    end = table.log.end_offset
    batch = MetadataBatch(base_offset=end, stamp=STAMP, records=settings_of(name))
    return log.commit(
        table,
        append(table, table.quorum_epoch, end, base_offset=end, record_count=1, write_id=name),
        batch,
    )


def test_the_last_decision_and_what_follows_it_stay_as_they_are(roots):
    log = roots.open(0)
    before = log.read(from_offset=0, to_offset=2 + COUNT)

    assert log.merge()

    found = log.load()
    assert [(each.kind, each.end_offset, each.epoch) for each in found.log.batches] == [
        (BatchKind.RUN, 1, 0),
        (BatchKind.RUN, 1 + COUNT, 1),
        (BatchKind.DECISION, 2 + COUNT, 1),
    ]
    assert found.log.voters is not None
    assert roots.open(0).load() == found
    assert log.read(from_offset=0, to_offset=2 + COUNT) == before
    assert log.read(from_offset=3, to_offset=5) == before[3:5]


def test_a_tail_is_cut_after_a_merge_and_nothing_that_was_merged(roots):
    log = roots.open(0)
    log.merge()
    table = log.load()

    with pytest.raises(CorruptLogError, match="would be cut"):
        log.commit(table, TableChange(quorum_epoch=2, cut_to=COUNT))
    after = log.commit(table, TableChange(quorum_epoch=2, leader=key_of(1), cut_to=1 + COUNT))

    assert after.log.end_offset == 1 + COUNT
    assert roots.open(0).load() == log.load() == after


@pytest.mark.parametrize("behind", [True, False])
def test_a_voter_copies_what_its_leader_has_merged(roots, behind):
    leader, voter = roots.open(0), roots.open(1)
    if not behind:  # it ends within what the leader merges
        half = roots.open(0).load()
        voter.commit(voter.load(), adopt(voter.load(), half))
        voter.commit(voter.load(), fetch(voter.load(), half, records_max=5), leader)
    leader.merge()
    led = leader.load()
    change = adopt(voter.load(), led)
    if change is not None:
        voter.commit(voter.load(), change)

    after = voter.commit(voter.load(), fetch(voter.load(), led), leader)

    assert after.log.end == led.log.end
    everything = leader.read(from_offset=0, to_offset=led.log.end_offset)
    assert voter.read(from_offset=0, to_offset=led.log.end_offset) == everything
    assert roots.open(1).load() == after

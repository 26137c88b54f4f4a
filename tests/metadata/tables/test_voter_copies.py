"""What a voter copies of its leader's log: the leader's rows, read back only if they must be."""

import errno
import os

import pytest

from kafka_on_spark.base.errors import CorruptLogError, RootAccessDeniedError
from kafka_on_spark.base.ids import ControllerEpoch
from kafka_on_spark.metadata.metadata_files import decode_rows
from kafka_on_spark.metadata.quorum.raft import adopt, append, fetch
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Stamp
from kafka_on_spark.store import local_files
from kafka_on_spark.store.roots import StorageOptions
from tests.contract.voter_roots import delta_roots, lose_tail
from tests.voter_fakes import settings_of

CLAIM = ControllerRecord(controller_id="c", controller_epoch=ControllerEpoch(3), cause="due")


@pytest.fixture
def roots(tmp_path, monkeypatch):
    return delta_roots(str(tmp_path), StorageOptions(), monkeypatch)


@pytest.fixture
def voter(roots):
    """A voter that follows the leader, up to where that is now."""
    leader, voter = roots.open(0), roots.open(1)
    voter.commit(voter.load(), adopt(voter.load(), leader.load()))
    voter.commit(voter.load(), fetch(voter.load(), leader.load()), leader)
    return voter


def decide(leader, *records):
    table = leader.load()
    end = table.log.end_offset
    batch = MetadataBatch(base_offset=end, stamp=Stamp(time_ms=7), records=records)
    return leader.commit(
        table,
        append(table, 1, end, base_offset=end, record_count=len(records), write_id=f"w{end}"),
        batch,
    )


def rows(log):
    file = max(log._delta.active_files(), key=lambda each: int(each.values["base_offset"]))
    return [*decode_rows(log._files.read(f"{log.uri}/{file.path}", 1 << 20), file.path)]


def test_a_disk_that_is_read_only_denies_what_is_put_there_and_names_its_root(roots, monkeypatch):
    leader = roots.open(0)
    leader.load()

    def refuse(*given, **named):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as read_only:
        read_only.setattr(local_files, "write_temporary", refuse)
        with pytest.raises(RootAccessDeniedError, match=f"{leader.root} takes no writes"):
            decide(leader, CLAIM)

    decide(leader, CLAIM)


@pytest.mark.parametrize("is_in_hand", [True, False])
def test_a_copy_has_the_rows_of_its_leader(roots, voter, is_in_hand):
    leader = roots.open(0)
    led = decide(leader, CLAIM, *settings_of("a"))

    voter.commit(voter.load(), fetch(voter.load(), led), leader if is_in_hand else roots.open(0))

    leader.load()
    assert rows(voter) == rows(leader)
    assert voter.load().log == led.log


@pytest.mark.parametrize("is_in_hand", [True, False])
def test_a_copy_has_the_rows_of_the_write_that_it_names_or_is_refused(roots, voter, is_in_hand):
    """It was cut meanwhile, and another leader's batch stands at the same offset."""
    leader = roots.open(0)
    stale = lose_tail(roots, lambda: decide(leader, CLAIM))
    before = voter.load()

    if is_in_hand:
        voter.commit(before, fetch(before, stale), leader)
        assert CLAIM.controller_id in str(rows(voter))
    else:
        with pytest.raises(CorruptLogError):
            voter.commit(before, fetch(before, stale), roots.open(0))
        assert voter.load() == before

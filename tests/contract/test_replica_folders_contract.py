"""The contract of ReplicaFolders, for the fake and for the one on files, on a disk and on a store."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log.producer_state import producers_file_name
from tests.builders import disk, stamp
from tests.contract.logs import append, created, drop_below, merge, names_of
from tests.store.s3.faulty_s3 import Kind

ORPHAN = "0-" + "a" * 32 + "-" + "b" * 32 + ".parquet"


@pytest.fixture
def disks(every_disks):
    return every_disks


@pytest.fixture
def address(disks):
    """A log of three appends of a segment each."""
    address = disks.addresses[1]
    created(disks, address)
    for _ in range(3):
        append(disks, address, 2)
    return address


def state_of(disks, address):
    return disks.replicas.open(address).load()


def test_all_files_of_a_folder_that_is_there_are_listed_but_not_the_log_of_its_table(
    disks, address
):
    disks.write(address, ORPHAN, b"staged")
    nobody = replace(address, replica_uuid="f" * 32)

    assert disks.folders.names(address) == sorted([*names_of(state_of(disks, address)), ORPHAN])
    assert disks.folders.names(nobody) == disks.folders.found(nobody, [ORPHAN]) == []


def test_files_are_found_with_sizes_and_times_and_those_that_are_gone_are_left_out(disks, address):
    disks.write(address, ORPHAN, b"staged")
    names = names_of(state_of(disks, address))
    disks.folders.delete(address, names[:1])

    found = disks.folders.found(address, [*names, ORPHAN])

    assert [each.name for each in found] == [*names[1:], ORPHAN]
    assert found[-1].size_bytes == len(b"staged")
    now_ms = disks.folders.now_ms(address)
    assert all(0 <= each.written_at_ms <= now_ms for each in found)


def test_the_time_of_a_root_is_that_of_the_disk_of_the_address(disks, address):
    other = replace(address, directory_id=disk(9))

    assert disks.folders.now_ms(address) > 0
    with pytest.raises(KafkaStorageError):
        disks.folders.now_ms(other)


def test_what_a_table_has_removed_or_merged_is_told_with_a_time_and_nothing_else_is(disks, address):
    assert disks.folders.removed_at_ms(address) == {}

    removed = drop_below(disks, address, 2)
    left = names_of(state_of(disks, address))
    merged = merge(disks, address)

    told = disks.folders.removed_at_ms(address)
    assert sorted(told) == sorted([*removed, *left])
    assert (len(removed), len(left)) == (1, 2)
    assert all(at_ms >= 0 for at_ms in told.values())
    assert names_of(state_of(disks, address)) == [merged.segment.file_name]


def test_files_are_deleted_once_and_no_other_goes(disks, address):
    removed = drop_below(disks, address, 2)
    kept = names_of(state_of(disks, address))

    for _ in range(2):  # the second time another cleaner was faster
        disks.folders.delete(address, removed)

    assert disks.folders.names(address) == kept
    assert names_of(disks.reopened().open(address).load()) == kept


def test_a_name_that_is_no_segment_s_can_not_be_deleted(disks, address):
    before = disks.folders.names(address)

    for name in ("../meta.properties", "_delta_log", "notes.txt"):
        with pytest.raises(AssertionError):
            disks.folders.delete(address, [name])

    assert disks.folders.names(address) == before
    assert state_of(disks, address).log_end_offset == 6


def test_the_number_of_the_producers_file_that_counts_is_of_the_state_that_was_loaded(disks):
    """A cleaner takes those below it: it must be the number of just that state."""
    address = disks.addresses[1]
    created(disks, address)
    for sequence in range(3):
        append(disks, address, 1, producer=stamp(sequence))
    cleaner = disks.reopened().open(address)
    assert (cleaner.load().log_start_offset, cleaner.producers_number) == (0, 0)

    for end in (1, 2):
        drop_below(disks, address, end)

    assert cleaner.producers_number == 0
    assert (cleaner.load().log_start_offset, cleaner.producers_number) == (2, 2)
    found = [each for each in disks.folders.names(address) if each.startswith("producers-")]
    assert found == [producers_file_name(1), producers_file_name(2)]


CALLS = {
    "names": lambda folders, address: folders.names(address),
    "found": lambda folders, address: folders.found(address, [ORPHAN]),
    "now_ms": lambda folders, address: folders.now_ms(address),
    "delete": lambda folders, address: folders.delete(address, [ORPHAN]),
}
"""What cleaning asks of a root that fails, but for the log, which it passes over."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("every_disks", ["memory", "S3"], indirect=True)
def test_a_root_that_does_not_answer_is_told(disks, address, call):
    """Disks that fail are of tests/cluster/roots."""
    disks.write(address, ORPHAN, b"staged")
    if disks.roots is not None:
        disks.roots[address.root].is_offline = True
    else:
        for method in ("PUT", "GET", "HEAD", "DELETE", "POST"):
            disks.store.order(Kind.DENIED, method=method, suffix="", count=-1)

    with pytest.raises(KafkaStorageError):
        CALLS[call](disks.folders, address)

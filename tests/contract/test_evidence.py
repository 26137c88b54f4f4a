"""An error of the system is no evidence: only an inspection that read the files finds a flaw."""

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import (
    CorruptLogError,
    InconsistentTopicIdError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.log import segments
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.segments import read_segment
from kafka_on_spark.store import local_files
from kafka_on_spark.store.delta.delta_log import LISTINGS_MAX
from kafka_on_spark.store.roots import RootFiles
from tests.contract.conftest import OPTIONS
from tests.contract.test_replica_log_contract import lead, run, write


@pytest.fixture
def disks(delta_disks):
    return delta_disks


@pytest.fixture
def address(disks):
    return disks.addresses[1]


@pytest.fixture
def sound(disks, address):
    """Return a sound replica that no handle of this process has opened."""
    disks.replicas.create(address)
    run(disks.replicas.open(address), lead(0), *(write(f"s{number}") for number in range(12)))
    return address


def fail_reads(monkeypatch, error, times=1):
    errors = [error] * times
    whole = local_files.read_file

    def read(path, bytes_max):
        if errors and path.endswith(".json"):
            raise errors.pop()
        return whole(path, bytes_max)

    monkeypatch.setattr(local_files, "read_file", read)


def misread_once(monkeypatch, spoil):
    """Have the first read of a commit file give other bytes."""
    whole = local_files.read_file
    spoiled = []

    def read(path, bytes_max):
        content = whole(path, bytes_max)
        if spoiled or not path.endswith(".json"):
            return content
        spoiled.append(path)
        return spoil(content)

    monkeypatch.setattr(local_files, "read_file", read)


def list_once(monkeypatch, spoil):
    whole = RootFiles.names
    spoiled = []

    def names(files, path):
        found = whole(files, path)
        if spoiled:
            return found
        spoiled.append(path)
        return spoil(found)

    monkeypatch.setattr(RootFiles, "names", names)


def system(number):
    return OSError(number, os.strerror(number))


# fmt: off
PASSING = [
    pytest.param(partial(list_once, spoil=lambda _: []),                                      id="ENOENT of the listing"),
    pytest.param(partial(fail_reads, error=system(errno.EIO)),                                id="EIO"),
    pytest.param(partial(fail_reads, error=system(errno.EMFILE)),                             id="EMFILE"),
    pytest.param(partial(fail_reads, error=system(errno.ESTALE)),                             id="ESTALE"),
    pytest.param(partial(fail_reads, error=system(errno.ENOENT), times=LISTINGS_MAX),         id="ENOENT"),
    pytest.param(partial(misread_once, spoil=lambda content: content[:9]),                    id="cut short"),
    pytest.param(partial(misread_once, spoil=lambda content: content[::-1]),                  id="other bytes"),
    pytest.param(partial(fail_reads, error=OSError("the root does not answer")),              id="OSError"),
    pytest.param(partial(fail_reads, error=RuntimeError("a task of the runtime panicked")),   id="panic"),
    pytest.param(partial(fail_reads, error=KeyError("a library's own fault")),                id="KeyError"),
]
# fmt: on


@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_error_is_no_finding_about_a_replica(monkeypatch, sound, fault):
    log = ReplicaLog(sound, OPTIONS)
    fault(monkeypatch)

    with pytest.raises(KafkaStorageError):
        log.load()

    assert log.load().log_end_offset == 12


def test_a_commit_that_is_listed_and_gone_for_a_moment_is_read_from_a_new_listing(
    monkeypatch, sound
):
    """A cleaner may delete commits between the listing and the read."""
    fail_reads(monkeypatch, system(errno.ENOENT), times=LISTINGS_MAX - 1)

    assert ReplicaLog(sound, OPTIONS).load().log_end_offset == 12


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_the_callers_own_permission_is_told_apart(monkeypatch, sound, number):
    fail_reads(monkeypatch, system(number))

    with pytest.raises(RootAccessDeniedError):
        ReplicaLog(sound, OPTIONS).load()


def log_folder(address):
    return Path(address.folder) / "_delta_log"


def newest(address, suffix):
    return max(log_folder(address).glob(f"*{suffix}"))


def remove_folder(address):
    shutil.rmtree(address.folder)


def remove_log(address):
    shutil.rmtree(log_folder(address))


def break_commit(address):
    newest(address, ".json").write_text("{xx")


def remove_commit(address):
    sorted(log_folder(address).glob("*.json"))[-2].unlink()


# fmt: off
DAMAGES = [
    pytest.param(remove_folder,    ReplicaLostError, id="its folder is gone"),
    pytest.param(remove_log,       ReplicaLostError, id="its log is gone"),
    pytest.param(break_commit,     CorruptLogError,  id="a commit that is no JSON"),
    pytest.param(remove_commit,    CorruptLogError,  id="a gap"),
]
# fmt: on


@pytest.mark.parametrize("damage, kind", DAMAGES)
def test_what_was_read_and_is_wrong_is_said(sound, damage, kind):
    damage(sound)

    with pytest.raises(kind):
        ReplicaLog(sound, OPTIONS).load()


def test_another_topics_table_is_said_of_what_its_log_says(sound):
    first = min(log_folder(sound).glob("*.json"))
    for path in log_folder(sound).glob("*.checkpoint.parquet"):
        path.unlink()
    (log_folder(sound) / "_last_checkpoint").unlink(missing_ok=True)
    first.write_text(first.read_text().replace(sound.key.topic_id, "9" * 32))

    with pytest.raises(InconsistentTopicIdError):
        ReplicaLog(sound, OPTIONS).load()


@pytest.fixture
def segment(disks, address):
    disks.replicas.create(address)
    return disks.put(address, "a", 3)


# fmt: off
UNREAD = [
    pytest.param(lambda content: None,         id="not to be found"),
    pytest.param(lambda content: content[:9],  id="cut short"),
    pytest.param(lambda content: content[::-1], id="other bytes"),
]
# fmt: on


@pytest.mark.parametrize("spoil", UNREAD)
def test_a_segment_that_was_misread_once_is_no_finding(monkeypatch, address, segment, spoil):
    whole = RootFiles.read
    monkeypatch.setattr(segments.RootFiles, "read", lambda *asked: spoil(whole(*asked)))
    with pytest.raises(KafkaStorageError):
        read_segment(address, segment, OPTIONS)

    monkeypatch.setattr(segments.RootFiles, "read", whole)
    assert read_segment(address, segment, OPTIONS).num_rows == 3


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [os.unlink, cut, flip])
def test_a_segment_that_is_missing_or_damaged_is_said(disks, address, segment, damage):
    damage(Path(address.folder) / segment.file_name)

    with pytest.raises(CorruptLogError):
        read_segment(address, segment, OPTIONS)
    with pytest.raises(CorruptLogError):
        disks.segments.copy(address, disks.addresses[2], [segment])

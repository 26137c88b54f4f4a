"""Deletes files in a replica's folder that no log can need: lists first, reads the table second.

`log/unnamed_files.py` decides, on a state of the table that was read after the listing, and again
on the newest state before each part of the deletions: what it allowed once it allows for ever, but
a table that went back to an older state is noticed, and stops it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import ensure
from kafka_on_spark.log.producer_state import producers_file_name, producers_file_number
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.segments import check_no_link
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState
from kafka_on_spark.log.unnamed_files import (
    CleaningTimes,
    Fate,
    FoundFile,
    TableFiles,
    files_of,
    is_cleaned,
    is_waiting,
    judge,
    newest_staged_at_ms,
)
from kafka_on_spark.log.upkeep_work import NOTHING_DONE, Allowance, UpkeepOrder, WorkDone
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.temporaries import clean_table
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.error_translation import as_storage_errors
from kafka_on_spark.store.root_identity import check_directory, root_now_ms
from kafka_on_spark.store.roots import RootFiles, StorageOptions, leaves_unfinished

FILES_AT_ONCE: Final = 64
"""Files that are deleted before the table is read again."""


def clean_replica(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    address, folders = order.address, worker.folders
    listed = folders.names(address)  # before the table is read
    replica = worker.replicas.open(address)
    state = replica.load()
    number = replica.producers_number
    producers = producers_file_name(number)
    unnamed = unnamed_in(listed, replica, state)
    if not unnamed:
        return NOTHING_DONE
    if producers in listed:
        unnamed.add(producers)
    table = TableFiles(
        named=files_of(state),
        fence=state.leader_epoch,
        removed_at_ms=folders.removed_at_ms(address),
    )
    times = CleaningTimes(
        now_ms=folders.now_ms(address),
        delete_delay_ms=order.settings.delete_delay_ms,
        append_ms=order.settings.integer("delivery.timeout.ms"),
    )
    # Files that only wait are not asked for: a busy log has thousands.
    asked = [name for name in sorted(unnamed) if not is_waiting(name, table, times)]
    found = folders.found(address, asked)
    numbers = [(producers_file_number(file.name), file.written_at_ms) for file in found]
    written = {each: at_ms for each, at_ms in numbers if each is not None}
    table = replace(
        table,
        producers=number if number in written else None,
        producers_written_at_ms=written,
        staged_at_ms=newest_staged_at_ms(found, table.removed_at_ms, times),
    )
    fates = [(file, judge(file, table, times)) for file in found]
    due = [file for file, fate in fates if fate is Fate.GOES]
    gone: list[FoundFile] = []
    failure: KafkaOnSparkError | None = None
    try:
        for part in [due] if order.is_dry_run else _deleted(order, worker, due, table, times):
            gone += part
            if allowance.is_time_over:
                break
    except KafkaOnSparkError as error:  # what was deleted before is reported all the same
        failure = error
    # Of the current epoch only: an older fence follows by itself.
    is_current = state.leader_epoch == order.partition.leader_epoch
    done = WorkDone(
        count=len(gone),
        what="files deleted",
        size_bytes=sum(file.size_bytes for file in gone),
        is_left=failure is None and len(gone) < len(due),
        orphan_bytes=sum(e.size_bytes for e, fate in fates if fate is Fate.ORPHAN and is_current),
    )
    return done if failure is None else done.failed(failure)


def unnamed_in(listed: Iterable[str], replica: ReplicaLog, state: ReplicaState) -> set[str]:
    """Return the files in a replica's folder that its log, as loaded after the listing, does not
    name: some wait for deletion, and an append under way may have staged others."""
    producers = producers_file_name(replica.producers_number)
    return set(filter(is_cleaned, listed)) - files_of(state) - {producers}


def _deleted(
    order: UpkeepOrder,
    worker: Worker,
    due: Sequence[FoundFile],
    table: TableFiles,
    times: CleaningTimes,
) -> Iterator[list[FoundFile]]:
    """Delete what the newest state of the table allows to go, too; yield each part of it."""
    for start in range(0, len(due), FILES_AT_ONCE):
        state = worker.replicas.open(order.address).load()
        table = replace(table, named=files_of(state), fence=state.leader_epoch)
        part = due[start : start + FILES_AT_ONCE]
        part = [file for file in part if judge(file, table, times) is Fate.GOES]
        worker.folders.delete(order.address, [file.name for file in part])
        yield part


def clean_delta_log(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    """Write a due checkpoint, and delete old commits and checkpoints of the table, and files that
    killed processes have not finished."""
    if order.is_dry_run:
        return NOTHING_DONE
    worker.replicas.open(order.address).maintain()
    return WorkDone(count=worker.folders.clean_log(order.address), what="old commits deleted")


_LOG: Final = "_delta_log"


class ReplicaFolders:
    """Lists and deletes files in replicas' folders: the only code that deletes segments.

    `log/unnamed_files.py` decides. What is deleted by mistake can't be had again, so names are
    checked once more here: no other file can be named.
    """

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder; none if there is no folder."""
        check_no_link(address)
        names = RootFiles(address.root, self._options).names(address.folder)
        return [name for name in names if name != _LOG]

    def sizes(self, address: ReplicaAddress) -> dict[str, int]:
        """Return the bytes of each file in a replica's folder; none if there is no folder."""
        return RootFiles(address.root, self._options).sizes(address.folder)

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        files = RootFiles(address.root, self._options)

        def find() -> list[FoundFile]:
            found = []
            for name in names:
                seen = files.time_and_size(f"{address.folder}/{name}")
                if seen is not None:  # else another cleaner was faster
                    written_at_ms, size_bytes = seen
                    found.append(FoundFile(name, size_bytes, written_at_ms))
            return found

        return within(address.root, find)

    def removed_at_ms(self, address: ReplicaAddress) -> dict[str, int]:
        """Return the files that the table has removed, and when, as far as its log still tells."""
        table = DeltaLog(address.folder, self._options, is_flushed=False)
        within(address.root, table.refresh)
        return within(address.root, table.tombstones)

    def now_ms(self, address: ReplicaAddress) -> int:
        """Return the time of the replica's root, which is the disk of the address."""
        return root_now_ms(address.root, address.directory_id, self._options)

    def clean_log(self, address: ReplicaAddress) -> int:
        """Delete commits that are not needed, and return how many; and files that killed
        processes have not finished."""
        root, uri, options = address.root, address.folder, self._options
        with as_storage_errors(f"clean the log of {uri}", options):
            count = within(root, lambda: clean_log(RootFiles(root, options), uri))
        if leaves_unfinished(root):
            check_directory(root, address.directory_id, options, address.registered_voters)
            within(root, lambda: clean_table(root, uri, options))
        return count

    def delete(self, address: ReplicaAddress, names: Sequence[str]) -> None:
        """Delete files; one that is gone was deleted by another cleaner."""
        for name in names:
            ensure(is_cleaned(name), name)
        check_directory(
            address.root, address.directory_id, self._options, address.registered_voters
        )
        files = RootFiles(address.root, self._options)

        def delete() -> None:
            for name in names:
                files.delete_file(f"{address.folder}/{name}")

        within(address.root, delete)

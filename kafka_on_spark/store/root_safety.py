"""Whether a root is safe: of racing conditional puts exactly one wins, by the code that commits.

A file system or store that does not hold to that would lose acknowledged records.
"""

from collections.abc import Callable
from threading import Barrier
from typing import Final
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.delta.conditional_commit import DeltaLog
from kafka_on_spark.store.roots import RootFiles, StorageOptions

RACERS: Final = 4
RACES: Final = 3


def unusable_root(root: str, error: KafkaOnSparkError) -> InvalidRootError:
    """Return the error that says why a root can't be used, and what to give instead."""
    return InvalidRootError(
        f"the root {root} can't be used: {error.message}; give a folder or bucket that exists and"
        " can be written"
    )


def test_conditional_puts(root: str, options: StorageOptions) -> None:
    """Put one file twice, then race commits for one version of a scratch table, `RACES` times.

    Exactly one racer may win each time. The double put finds a store that ignores the condition,
    the races find one that checks it and writes in two steps.

    Raises:
        InvalidRootError: Two racers won or none did: the file system or store is not safe.
    """
    scratch = f"{root}/_race-{uuid4().hex}"
    schema = pa.schema([("base_offset", pa.int64())])
    try:
        DeltaLog.create(scratch, options, schema=schema, partition_by=[], configuration={})
        if not _is_second_put_refused(scratch, options):
            raise InvalidRootError(
                f"the root {root} is not safe: a second put replaced a file that it should have"
                " left; use a local disk with hard links, or a store that"
                " honours conditional puts"
            )
        start = Barrier(RACERS)
        with DaemonThreads(RACERS, "race") as racers:
            for version in range(RACES):
                logs = [DeltaLog(scratch, options) for _ in range(RACERS)]
                for log in logs:
                    log.refresh()
                wins = list(racers.map(_racer(version, start), logs))
                if sum(wins) != 1:
                    raise InvalidRootError(
                        f"the root {root} is not safe: {sum(wins)} of {RACERS} racing writers"
                        " were told that they won; use a local disk with hard links, or a store"
                        " whose conditional puts are atomic"
                    )
    except InvalidRootError:
        raise
    except KafkaOnSparkError as error:
        raise unusable_root(root, error) from error
    finally:
        _remove(scratch, options)


def _is_second_put_refused(scratch: str, options: StorageOptions) -> bool:
    files = RootFiles(scratch, options)
    path = f"{scratch}/put-twice"
    # A lost answer may make the first put look refused: the file's content tells.
    files.write_if_absent(path, b"first")
    return not files.write_if_absent(path, b"second") and files.read(path, 5) == b"first"


def _racer(version: int, start: Barrier) -> Callable[[DeltaLog], bool]:
    def run(log: DeltaLog) -> bool:
        start.wait()
        try:
            log.commit(version, operation="race", counters={})
        except CommitConflictError:
            return False
        return True

    return run


def _remove(scratch: str, options: StorageOptions) -> None:
    # What a failed test leaves has a name of its own, and is no part of any log.
    files = RootFiles(scratch, options)
    try:
        files.delete(scratch)
    except KafkaStorageError:
        return

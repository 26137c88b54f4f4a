"""Which commit of a replica's table is the newest: two looks at files, and nothing is opened."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from itertools import chain, islice
from math import inf
from time import monotonic
from typing import Final

from kafka_on_spark.controller.pace.quiet import Marks, TableMark
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder
from kafka_on_spark.storage.calls.deadlines import within
from kafka_on_spark.storage.delta.files.commit_files import CommitFiles
from kafka_on_spark.storage.delta.files.delta_files import commits_in, log_folder
from kafka_on_spark.storage.replicas.replica_folders import replica_folder
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, is_local

TABLES_A_CALL: Final = 64
"""Of a disk. To hand a call to another thread takes several times as long as two looks at files."""

QUICK_SECONDS: Final = 0.02
"""For how long one call looks at a disk's tables one after the other. A disk of this machine has
answered for all of them long before; of one that has not, such as a far mount, the others are
looked at side by side."""

CALLS_A_SLOW_DISK: Final = 8
"""In which the others are looked at, if they are so many."""

Table = tuple[ReplicaAddress, TableMark | None]
"""A replica, and its mark when it was last seen."""


def table_marks(order: MarkOrder, options: StorageOptions) -> Marks:
    """Return the marks of a partition's tables; None for one that can't be looked at, or that
    another commit is just coming to: reading the table says what is wrong."""
    return tuple(_mark(each, options) for each in _tables(order))


def marks_of_many(
    orders: Sequence[MarkOrder], options: StorageOptions, threads: Executor
) -> list[Marks]:
    """Return the same of many partitions, in `threads`; a disk is asked for many of its tables in
    one call."""
    by_root: dict[str, list[Table]] = defaultdict(list)
    for order in orders:
        for each in _tables(order):
            by_root[each[0].root].append(each)
    calls = [call for root, tables in by_root.items() for call in _calls(root, tables)]
    begun = list(
        threads.map(lambda tables: _marks_on_a_root(tables, options, QUICK_SECONDS), calls)
    )
    left = (tables[len(marks) :] for tables, marks in zip(calls, begun, strict=True))
    pieces = [piece for tables in left for piece in _pieces(tables)]
    more = chain.from_iterable(threads.map(lambda each: _marks_on_a_root(each, options), pieces))
    found: dict[str, list[TableMark | None]] = defaultdict(list)
    for tables, marks in zip(calls, begun, strict=True):
        found[tables[0][0].root] += chain(marks, islice(more, len(tables) - len(marks)))
    in_order = {root: iter(marks) for root, marks in found.items()}
    return [tuple(next(in_order[each.root]) for each in order.addresses) for order in orders]


def _tables(order: MarkOrder) -> list[Table]:
    known = order.known or (None,) * len(order.addresses)
    return list(zip(order.addresses, known, strict=True))


def _calls(root: str, tables: Sequence[Table]) -> Iterator[Sequence[Table]]:
    size = TABLES_A_CALL if is_local(root) else 1  # a store is waited for: calls go side by side
    for start in range(0, len(tables), size):
        yield tables[start : start + size]


def _pieces(tables: Sequence[Table]) -> Iterator[Sequence[Table]]:
    """Yield what a quick call has left of a disk's tables, to be looked at side by side."""
    size = -(-len(tables) // CALLS_A_SLOW_DISK)
    for start in range(0, len(tables), max(size, 1)):
        yield tables[start : start + size]


def _marks_on_a_root(
    tables: Sequence[Table], options: StorageOptions, seconds: float = inf
) -> list[TableMark | None]:
    """Return the marks of tables of a root, in order: at least of one, and of those that it comes
    to within that time."""
    root = tables[0][0].root

    def look() -> list[TableMark | None]:
        until, marks = monotonic() + seconds, list[TableMark | None]()
        for each in tables:
            marks.append(_mark(each, options))
            if monotonic() >= until:
                break
        return marks

    try:
        return within(root, look)
    except KafkaOnSparkError:  # the root hangs
        return [None] * len(tables)


def _mark(table: Table, options: StorageOptions) -> TableMark | None:
    address, known = table
    folder = replica_folder(address)
    files = RootFiles(address.root, options)
    commits = CommitFiles(folder, files)
    try:
        if known is not None:
            found = _newest(commits, known.version)
            if found is not None:
                return found
        versions = commits_in(files.names(log_folder(folder)))
        return _newest(commits, max(versions)) if versions else None
    except KafkaOnSparkError:
        return None


def _newest(commits: CommitFiles, version: int) -> TableMark | None:
    following, own = commits.stamps((version + 1, version))
    return TableMark(version, own) if own is not None and following is None else None

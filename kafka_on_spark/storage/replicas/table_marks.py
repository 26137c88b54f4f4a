"""Which commit of a replica's table is the newest: two looks at files, and nothing is opened."""

from kafka_on_spark.controller.pace.quiet import Marks, TableMark
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder
from kafka_on_spark.storage.delta.files.commit_files import CommitFiles
from kafka_on_spark.storage.delta.files.delta_files import commits_in, log_folder
from kafka_on_spark.storage.replicas.replica_folders import replica_folder
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions


def table_marks(order: MarkOrder, options: StorageOptions) -> Marks:
    """Return the marks of a partition's tables; None for one that can't be looked at, or that
    another commit is just coming to: reading the table says what is wrong."""
    known = order.known or (None,) * len(order.addresses)
    return tuple(
        _mark(address, each, options) for address, each in zip(order.addresses, known, strict=True)
    )


def _mark(
    address: ReplicaAddress, known: TableMark | None, options: StorageOptions
) -> TableMark | None:
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

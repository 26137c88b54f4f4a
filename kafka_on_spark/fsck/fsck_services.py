"""Checks a cluster (fsck), wired to files and a task runner.

Apart from `services`, which opens a cluster by replaying its metadata: fsck also checks a cluster
that can't be opened.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.process import TaskRunner
from kafka_on_spark.controller.keeping_tasks import audit_task
from kafka_on_spark.fsck.cluster_audit import Fsck
from kafka_on_spark.fsck.findings import FsckReport
from kafka_on_spark.fsck.replica_audit import AuditOrder
from kafka_on_spark.fsck.trace import ReplicaTrace
from kafka_on_spark.node.task_runner import SparkTaskRunner, ThreadTaskRunner
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS: Final = 8
"""Threads that read tables: they wait for disks and stores most of the time."""


def check_tables(
    metadata_root: str, options: StorageOptions, runner: TaskRunner, *, is_deep: bool
) -> FsckReport:
    """Check the cluster at `metadata_root` (normalized) by tasks of `runner`.

    Raises:
        ClusterNotFoundError: There is no cluster.
        KafkaStorageError: The metadata root does not answer.
    """

    def run_audits(orders: Sequence[AuditOrder]) -> list[ReplicaTrace]:
        return runner.run(partial(audit_task, options=options), orders)

    return Fsck(metadata_root, options, run_audits, SystemClock(), is_deep=is_deep).run()


def check_cluster(
    metadata_root: str | os.PathLike[str],
    spark: "SparkSession | None" = None,
    *,
    deep: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> FsckReport:
    """Check a cluster without opening it; tasks run on `spark`, or in threads without.

    Raises:
        ClusterNotFoundError: There is no cluster.
        KafkaStorageError: The metadata root does not answer.
        InvalidRootError: `metadata_root` is not the URL of a root.
        InvalidRequestError: `spark` is a Spark Connect session.
    """
    options, root = StorageOptions(storage_options), cluster_url(metadata_root)
    if spark is not None:
        return check_tables(root, options, SparkTaskRunner(spark), is_deep=deep)
    with DaemonThreads(THREADS, "fsck") as threads:
        return check_tables(root, options, ThreadTaskRunner(threads), is_deep=deep)

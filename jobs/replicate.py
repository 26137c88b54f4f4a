"""Bring followers up to their leaders from Spark: ./spark-submit.sh jobs/replicate.py --cluster URL

One round, or rounds for a time. A round visits the partitions that have work, and inspects a slice
of the others; executors copy. The exit code is 0 if the last round left all replicas in sync, 1 if
not, 2 if it failed.
"""

import argparse
import sys

from jobs.command_line import Parser, on_cluster, rounds
from kafka_on_spark import Cluster
from kafka_on_spark.cli.output import plural

COMMAND = "./spark-submit.sh jobs/replicate.py"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    parser.add_cluster()
    parser.add_argument("--topic", action="append", metavar="NAME", help="only this topic")
    parser.add_argument("--sweep", action="store_true", help="inspect all replicas, also idle ones")
    parser.add_times("replicate", every=10)
    return parser.parse_args(arguments)


def replicate(cluster: Cluster, given: argparse.Namespace) -> tuple[str, int]:
    """Do one round; return what it did, and the exit code."""
    report = cluster.replicate(given.topic, is_sweep=given.sweep)
    figures = (
        f"Visited {plural(report.partition_count, 'partition')} with work, copied"
        f" {plural(report.copied_records, 'record')} ({plural(report.copied_bytes, 'byte')}), cut"
        f" {plural(report.truncated_records, 'record')}, changed"
        f" {plural(report.isr_changes, 'ISR')}:"
        f" {'all' if report.is_caught_up else 'not all'} are caught up"
    )
    return "; ".join([figures, *report.failures]), 0 if report.is_caught_up else 1


def main(arguments: list[str]) -> int:
    """Replicate; return the exit code."""
    given = parse(arguments)
    return on_cluster(
        COMMAND, given, lambda _, cluster: rounds(given, lambda left: replicate(cluster, given))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

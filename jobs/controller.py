"""Control a cluster from Spark: ./spark-submit.sh jobs/controller.py --cluster URL

One pass, or passes for a time: they fence brokers whose roots are away, elect leaders, move
replicas and delete what retention allows. Executors probe the roots. With --for the job prints a
line an interval, in which it makes a pass each broker.heartbeat.interval.ms; it waits while another
process controls. It resigns when it ends.
"""

import argparse
import sys

from jobs.command_line import Parser, on_cluster, rounds
from kafka_on_spark import Cluster
from kafka_on_spark.cli.output import plural

COMMAND = "./spark-submit.sh jobs/controller.py"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    parser.add_cluster()
    parser.add_times("control", every=5)
    return parser.parse_args(arguments)


def control(cluster: Cluster, seconds: float | None) -> tuple[str, int]:
    """Make one pass, or passes for some seconds; return what they did, and the exit code."""
    report = cluster.run_controller(seconds)
    figures = (
        f"{report.passes:,} {'pass' if report.passes == 1 else 'passes'}: fenced"
        f" {_named(report.fenced)}, came back {_named(report.unfenced)},"
        f" {plural(report.leaders_moved, 'partition')} with another leader, deleted"
        f" {plural(report.records_deleted, 'record')} and {plural(report.tables_removed, 'table')}"
    )
    denied = [f"the roots of {_named(report.denied)} deny this process"] if report.denied else []
    return "; ".join([figures, *denied]), 0


def _named(broker_ids: tuple[int, ...]) -> str:
    return ", ".join(f"broker {each}" for each in broker_ids) or "no broker"


def main(arguments: list[str]) -> int:
    """Control; return the exit code."""
    given = parse(arguments)
    once = given.seconds is None
    return on_cluster(
        COMMAND,
        given,
        lambda _, cluster: rounds(
            given, lambda left: control(cluster, None if once else min(left, given.interval))
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""See a replicated log lose a disk and lose nothing: ./spark-submit.sh jobs/quickstart.py

Appends all flights out of New York in 2013 to a cluster of three brokers, takes the disk of one
away in the middle, gives it back, and verifies from the tables that nothing is lost or doubled.
With --voters 3 it takes the root of the metadata quorum's leader away, too, for good.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.command_line import Parser
from jobs.quickstart_run.console import Output
from jobs.quickstart_run.flights import flight_count
from jobs.quickstart_run.run_folder import GivenPlan, Plan, QuickstartError, RunFolder
from jobs.quickstart_run.steps import (
    LOST_BROKER,
    REPLICATION_FACTOR,
    Run,
    append_half,
    begin_stream,
    give_disk_back,
    lose_disk,
    lose_metadata_root,
    open_cluster,
    show_history,
    show_topic,
    verify,
    wait_for_stream,
)
from kafka_on_spark import KafkaOnSparkError
from kafka_on_spark.base.errors import InvalidRootError
from kafka_on_spark.spark.session import build_session, register_data_source
from kafka_on_spark.store.roots import is_local, normalize

COMMAND = "./spark-submit.sh jobs/quickstart.py"
PARTITIONS_MAX = 1000
VOTERS = (1, 3, 5)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    rows = flight_count()
    parser = Parser(COMMAND, __doc__, exit_code=1)
    parser.add_argument(
        "--dir",
        help="folder to work in; a run that was interrupted continues there (default: a new one)",
    )
    parser.add_argument(
        "--root",
        type=_store,
        help="URL in a bucket, such as s3://bucket/quickstart, for the cluster's roots; credentials"
        " come from the environment (default: folders in --dir)",
    )
    parser.add_argument("--rows", type=_between(2, rows), help=f"flights (default {rows}: all)")
    parser.add_argument(
        "--brokers",
        type=_between(REPLICATION_FACTOR, 100),
        help=f"brokers (default {REPLICATION_FACTOR}, which is the least)",
    )
    parser.add_argument(
        "--partitions", type=_between(1, PARTITIONS_MAX), help="partitions (default 8)"
    )
    parser.add_argument(
        "--voters",
        type=_voters,
        help="roots of the metadata log; of three or five, one is lost on the way (default 1)",
    )
    return parser.parse_args(arguments)


def _voters(text: str) -> int:
    if text not in map(str, VOTERS):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: give 1, 3 or 5")
    return int(text)


def _store(text: str) -> str:
    try:
        url = normalize(text)
    except InvalidRootError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if is_local(url):
        raise argparse.ArgumentTypeError(f"{text!r} is a folder: name it with --dir")
    return url


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed: give a whole number from {low} to {high}"
            )
        return int(text)

    return read


def main(arguments: list[str]) -> int:
    """Run the steps; return the exit code."""
    output = Output()
    given = parse(arguments)
    folder = None
    try:
        folder = RunFolder.take(
            given.dir,
            GivenPlan(given.rows, given.brokers, given.partitions, given.root, given.voters),
            Plan(rows=flight_count(), brokers=REPLICATION_FACTOR, partitions=8),
        )
        log_to(folder.log)
        return run_steps(folder, output)
    except (QuickstartError, KafkaOnSparkError) as error:
        output.failure(str(error))
    except KeyboardInterrupt:
        output.failure("it was interrupted")
    except Exception as error:
        if folder is None:
            raise
        logging.getLogger("kafka_on_spark").exception("the quickstart has failed")
        output.failure(f"{type(error).__name__}, see {folder.log}")
    if folder is not None:
        output.say(f"go on with {COMMAND} --dir {folder.path}")
    return 1


def log_to(file: Path) -> None:
    """Write the package's log to a file: the steps print the results."""
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("kafka_on_spark")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def start_spark() -> SparkSession:
    """Return a session that logs only errors, unless the user has set a level."""
    spark = build_session("quickstart")
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("ERROR")
    # On a busy machine Spark's own look-up by name may be cut off, and is not tried again.
    register_data_source(spark)
    return spark


def run_steps(folder: RunFolder, output: Output) -> int:
    """Run the remaining steps; return 0 if every check passes."""
    verb = "Going on" if folder.is_continued else "Working"
    output.say(f"{verb} in {folder.path}; starting Spark, which takes some seconds")
    spark = start_spark()
    with output.step(f"A cluster of {folder.plan.brokers} brokers"):
        cluster = open_cluster(spark, folder, output)
        run = Run(spark, folder, cluster, output)
        stream = begin_stream(run)
    with output.step("Append the first half, acks=all"):
        append_half(run, 0)
        wait_for_stream(run, stream)
    with output.step("Leaders, in-sync replicas and offsets"):
        show_topic(run)
    with output.step(f"Take broker {LOST_BROKER}'s disk away"):
        lose_disk(run)
    if folder.plan.voters > 1:
        with output.step("Take the root of the metadata quorum's leader away"):
            lose_metadata_root(run)
    with output.step("Append the second half, while the disk is away"):
        append_half(run, 1)
        wait_for_stream(run, stream)
    with output.step("Give the disk back"):
        give_disk_back(run)
    with output.step("Verify, from the tables"):
        if stream is not None:
            stream.stop()
        problems = verify(run)
        show_history(run)
    cluster.close()
    spark.stop()
    return conclude(folder, output, problems)


def conclude(folder: RunFolder, output: Output, problems: list[str]) -> int:
    """Print the summary; return 0.

    Raises:
        QuickstartError: A check found a problem.
    """
    output.summary()
    if problems:
        raise QuickstartError(f"{len(problems)} checks found something wrong, see above")
    lost = f"Broker {LOST_BROKER} lost its disk"
    if folder.lost_metadata_root is not None:
        lost += ", and the metadata quorum the root of its leader"
    output.say(
        f"\n{lost}; no record was lost or doubled.\n"
        f"Everything is kept in {folder.path}: the picture is {folder.picture.name}, and\n"
        f'Cluster.open("{folder.cluster_url}") opens the cluster.'
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

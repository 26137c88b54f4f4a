"""Parses the command lines of jobs and runs them on a cluster; an error is one sentence."""

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.cli.options import pairs
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.log.view_table import hadoop_url
from kafka_on_spark.spark.jvm import reader_settings
from kafka_on_spark.spark.session import build_session, register_data_source
from kafka_on_spark.store.roots import StorageOptions, normalize
from kafka_on_spark.store.storage_options import PACKAGES

Work = Callable[[SparkSession, Cluster], int]
Round = Callable[[float], tuple[str, int]]
"""A round of a job, given the seconds that are left; returns what it did, and an exit code."""


class JobError(Exception):
    """A job can't go on; the message is one sentence that says what to do."""


class Parser(argparse.ArgumentParser):
    """Parses a job's options; a wrong command line ends with `exit_code`."""

    def __init__(self, command: str, description: str | None, *, exit_code: int = 2) -> None:
        super().__init__(prog=command, description=description)
        self._exit_code = exit_code

    def error(self, message: str) -> NoReturn:
        """Print the error in one sentence, and exit."""
        self.exit(self._exit_code, f"{self.prog}: {message}; --help lists the options\n")

    def add_cluster(self) -> None:
        """Add the options that name the cluster, as the command line has them."""
        self.add_argument(
            "--cluster",
            default=os.environ.get("KAFKA_ON_SPARK_CLUSTER"),
            required="KAFKA_ON_SPARK_CLUSTER" not in os.environ,
            metavar="URL",
            help="the metadata root, or several with commas between (default:"
            " KAFKA_ON_SPARK_CLUSTER)",
        )
        self.add_argument(
            "--storage-option",
            action="append",
            type=pair,
            metavar="NAME=VALUE",
            help="a storage option, such as AWS_REGION=eu-west-1; may be given more than once",
        )

    def add_times(self, what: str, every: float) -> None:
        """Add the options that say for how long the job goes on."""
        how_long = self.add_mutually_exclusive_group()
        how_long.add_argument("--once", action="store_true", help=f"{what} once (the default)")
        how_long.add_argument(
            "--for",
            dest="seconds",
            type=_seconds,
            metavar="SECONDS",
            help=f"{what} again and again for so long, until SIGTERM or ^C",
        )
        self.add_argument(
            "--interval",
            type=_seconds,
            default=every,
            metavar="SECONDS",
            help=f"with --for: from one line of output to the next (default {every:g})",
        )


def pair(text: str) -> str:
    """Return an option's text, which is NAME=VALUE."""
    name, equals, _ = text.partition("=")
    if not (name.strip() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: give NAME=VALUE")
    return text


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: give seconds, such as 60")
    return found


def on_cluster(command: str, given: argparse.Namespace, work: Work) -> int:
    """Open the cluster of `given` with a Spark session, whose executors run the tasks, and return
    the exit code of `work`; after an error, which is said in one sentence, 2."""
    options = pairs(given.storage_option, "--storage-option")
    try:
        spark = build_session(Path(command).stem)
        if spark.conf.get("spark.log.level", None) is None:
            spark.sparkContext.setLogLevel("OFF")  # a task that fails is told in the sentence
        # It writes each error a second time, as JSON with its trace.
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
        register_data_source(spark)
        with Cluster.open(given.cluster, spark, storage_options=options) as cluster:
            return work(spark, cluster)
    except (JobError, KafkaOnSparkError, PySparkException, Py4JError) as error:
        said, code = _sentence(error), 2
    except KeyboardInterrupt:
        said, code = "it was interrupted", 130
    print(f"{command}: {said}", file=sys.stderr)
    return code


def _sentence(error: Exception) -> str:
    """Return the first line of an error: Spark's and Java's go on with their traces."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().partition("\n")[0]


def let_spark_read(spark: SparkSession, path: str, storage_option: Sequence[str] | None) -> str:
    """Return a folder's or a store's path as Spark takes it. Spark's own client is told a store's
    endpoint, and the name of its credentials, as for a view.

    Raises:
        InvalidRequestError: Spark has no client for the store.
    """
    path = re.sub("^file:/+", "/", path)
    if "://" not in path:
        return os.path.abspath(path)
    if urlsplit(path).scheme not in PACKAGES:
        return path.rstrip("/")
    options = StorageOptions(pairs(storage_option, "--storage-option"))
    settings = reader_settings(spark, [normalize(path)], options, "or give a folder")
    for name, value in settings.items():
        spark.conf.set(name, value)
    return unquote(hadoop_url(normalize(path)))


def found(path: str) -> str:
    """Return a path as a pattern, as which Spark takes it: if it is there, it is no pattern."""
    return escaped(path) if os.path.exists(path) else path


def escaped(path: str) -> str:
    """Return a pattern that only this very path meets."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def rounds(given: argparse.Namespace, do_round: Round) -> int:
    """Do one round, or rounds for `given.seconds`, each of which prints a line; return the exit
    code of the last. A signal ends the wait between two rounds, and is no failure.

    Rounds go on after one that failed: the next may find that what failed answers again.
    """
    if given.seconds is None:
        line, code = do_round(0.0)
        print(line, flush=True)
        return code
    until, code = time.monotonic() + given.seconds, 0
    with Interrupts() as interrupts:
        try:
            while (left := until - time.monotonic()) > 0:
                begun = time.monotonic()
                try:
                    line, code = do_round(left)
                except KafkaOnSparkError as error:
                    line, code = str(error), 2
                print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}", flush=True)
                left = min(given.interval - (time.monotonic() - begun), until - time.monotonic())
                with interrupts.waiting():
                    time.sleep(max(left, 0.0))
        except KeyboardInterrupt:
            print("Ended by a signal, between two rounds.", flush=True)
            return 0
    return code

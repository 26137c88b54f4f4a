"""`serve`: is the controller or a standby, and keeps the cluster going, until it is told to end."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_on_spark.cli.call import log_lines
from kafka_on_spark.cli.call.log_lines import LogFormat
from kafka_on_spark.cli.call.options import FAILED, ClusterUrl, StorageOption, pairs
from kafka_on_spark.cli.call.output import note
from kafka_on_spark.cli.serve.signals import Signals
from kafka_on_spark.cluster.openmetrics import OPENMETRICS, openmetrics
from kafka_on_spark.cluster.serving import ServedCluster
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.service.serve.health import Answer, Limits, healthz, readyz
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.roots.root_lists import cluster_url
from kafka_on_spark.storage.roots.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

WAIT_S: Final = 0.2
"""How often the main thread looks whether a signal was sent."""

SECONDS_MAX: Final = 366 * 86_400
"""A limit of time that is longer than a year is none; and infinity is no number of milliseconds."""


class ServingFailedError(KafkaOnSparkError):
    """A served cluster can't be served any more; only another process can."""


@contextmanager
def _errors_as_logged() -> Iterator[None]:
    """Have the sentence that the process ends with be a line of the log, where that is JSON: who
    collects its lines takes no others.

    Raises:
        KafkaOnSparkError: As it was raised, where the log is text.
        typer.Exit: An error was logged.
    """
    try:
        yield
    except KafkaOnSparkError as error:
        if not log_lines.is_json():
            raise
        log.critical("%s", error)
        raise typer.Exit(FAILED) from None


@_errors_as_logged()
def serve(
    context: typer.Context,
    cluster: ClusterUrl,
    on_spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Run tasks on Spark's executors: of spark-submit, if that starts this process."
            " Without it, in threads.",
        ),
    ] = False,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port",
            min=0,
            max=65535,
            help="Answer GET /healthz, /readyz and /metrics at this port; 0: at any that is free.",
        ),
    ] = None,
    health_host: Annotated[
        str, typer.Option("--health-host", metavar="ADDRESS", help="The address of that port.")
    ] = "127.0.0.1",
    log_format: Annotated[
        LogFormat,
        typer.Option(
            "--log-format",
            envvar="KAFKA_ON_SPARK_LOG_FORMAT",
            help="Lines of text, or a JSON object a line.",
        ),
    ] = LogFormat.TEXT,
    stop_seconds: Annotated[
        float,
        typer.Option(
            "--stop-seconds",
            min=1,
            max=SECONDS_MAX,
            help="It ends within that time of SIGTERM, come what may.",
        ),
    ] = 20.0,
    ready_seconds: Annotated[
        float,
        typer.Option(
            "--ready-seconds",
            min=1,
            max=SECONDS_MAX,
            help="/readyz: the last pass has ended within that time.",
        ),
    ] = 60.0,
    stalled_seconds: Annotated[
        float,
        typer.Option(
            "--stalled-seconds",
            min=1,
            max=SECONDS_MAX,
            help="/healthz: its loop has moved within that time.",
        ),
    ] = 600.0,
    rounds_stalled_seconds: Annotated[
        float,
        typer.Option(
            "--rounds-stalled-seconds",
            min=1,
            max=SECONDS_MAX,
            help="/healthz: a round has begun, or ended, within that time.",
        ),
    ] = 86_400.0,
    storage_option: StorageOption = None,
) -> None:
    """Keep a cluster going: control it, replicate, do all upkeep, until SIGTERM, SIGINT or SIGHUP.

    Of several such processes one is the controller; the others stand by, and one of them takes over
    once it has not renewed its lease for controller.lease.ms. Roots that are away, full or
    read-only are waited for. The exit code is 0 when it was told to end.
    """
    log_lines.set_up(log_format, "INFO")
    _check_obeyed(context, has_port=health_port is not None)
    root = cluster_url(cluster)
    options = StorageOptions(pairs(storage_option, "--storage-option"))
    told = Signals()
    served = ServedCluster(root, options, _session() if on_spark else None)
    limits = Limits(
        stalled_ms=int(stalled_seconds * 1000),
        rounds_stalled_ms=int(rounds_stalled_seconds * 1000),
        look_ms=int(ready_seconds * 1000),
    )
    probes = Probes(served, limits)
    port = None
    if health_port is not None:
        # In the function: without a port, the server's modules are not needed.
        from kafka_on_spark.cli.serve.health_port import HealthPort

        port = HealthPort(
            health_host,
            health_port,
            healthz=probes.healthz,
            readyz=probes.readyz,
            metrics=lambda: openmetrics(served.metrics(), has_process=True),
            metrics_type=OPENMETRICS,
        )
        log.info("answers /healthz, /readyz and /metrics at %s", port.address)
    told.take()  # after Spark's session, which takes one of them for itself
    log.info("serves the cluster at %s", root)
    served.begin()
    while not served.ended.wait(WAIT_S) and not told.name:
        pass
    log.info("ends: %s", served.failure or f"told to by {told.name}")
    clock = SystemClock()
    until_ms = clock.monotonic_ms() + stop_seconds * 1000
    is_clean = served.end(int(stop_seconds * 1000))
    if port is not None:
        port.close((until_ms - clock.monotonic_ms()) / 1000)
    _finish(served, is_clean=is_clean)


class Probes:
    """What is answered to a supervisor that asks."""

    def __init__(self, served: ServedCluster, limits: Limits) -> None:
        self._served = served
        self._limits = limits
        self._clock = SystemClock()

    def healthz(self) -> Answer:
        """Return whether the loop moves."""
        return healthz(self._served.looks.seen, self._clock.monotonic_ms(), self._limits)

    def readyz(self) -> Answer:
        """Return whether the work is done."""
        return readyz(self._served.looks.seen, self._clock.monotonic_ms(), self._limits)


def _check_obeyed(context: typer.Context, *, has_port: bool) -> None:
    """Check that no option is given that nothing would obey.

    Raises:
        InvalidRequestError: One is.
    """
    source = context.get_parameter_source("health_host")
    if not has_port and source is not None and source.name == "COMMANDLINE":
        raise InvalidRequestError(
            "--health-host goes with --health-port: leave it out, or give both"
        )


def _session() -> "SparkSession":
    # In the function: without Spark, its session's modules are not needed.
    from kafka_on_spark.spark.session import build_session

    return build_session("kafka-on-spark serve")


def _finish(served: ServedCluster, *, is_clean: bool) -> None:
    """End the process.

    Raises:
        ServingFailedError: It could not go on.
    """
    if served.failure is not None and is_clean:
        raise ServingFailedError(served.failure)
    if not is_clean:
        # A thread that hangs at a root would keep Python from ending.
        if served.failure is not None and log_lines.is_json():
            log.critical("%s", served.failure)
        elif served.failure is not None:
            note(f"kafka-on-spark: {served.failure}")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if served.failure is None else FAILED)

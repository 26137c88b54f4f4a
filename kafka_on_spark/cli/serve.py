"""`serve`: is the controller or a standby, and keeps the cluster going, until it is told to end."""

import logging
import os
import signal
import sys
from typing import Annotated, Final

import typer

from kafka_on_spark.cli import log_lines
from kafka_on_spark.cli.interrupts import Interrupts
from kafka_on_spark.cli.log_lines import LogFormat
from kafka_on_spark.cli.options import FAILED, ClusterUrl, StorageOption, pairs
from kafka_on_spark.console.serving import ServedCluster, ServingFailedError
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

WAIT_S: Final = 0.2
"""How often the main thread looks whether a signal was sent."""

SECONDS_MAX: Final = 366 * 86_400
"""A limit of time that is longer than a year is none; and infinity is no number of milliseconds."""


def serve(
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
    storage_option: StorageOption = None,
) -> None:
    """Keep a cluster going: control it, replicate, do all upkeep, until SIGTERM, SIGINT or SIGHUP.

    Of several such processes one is the controller; the others stand by, and one of them takes over
    once it has not renewed its lease for controller.lease.ms. Roots that are away, full or
    read-only are waited for. The exit code is 0 when it was told to end.
    """
    log_lines.set_up(log_format, "INFO")
    root = cluster_url(cluster)
    options = StorageOptions(pairs(storage_option, "--storage-option"))
    spark = None
    if on_spark:
        # In the function: without Spark, its session's modules are not needed.
        from kafka_on_spark.spark.session import build_session

        spark = build_session("kafka-on-spark serve")
    served = ServedCluster(root, options, spark)
    if health_port is not None:
        # In the function: without a port, the server's modules are not needed.
        from kafka_on_spark.cli.health_port import answer_probes

        address = answer_probes(health_host, health_port, served)
        log.info("answers /healthz, /readyz and /metrics at %s", address)
    # After Spark's session, which takes one of the signals for itself.
    with Interrupts(lambda: None) as told:
        log.info("serves the cluster at %s", root)
        served.begin()
        while not served.ended.wait(WAIT_S) and told.code is None:
            pass
        by = "" if told.code is None else signal.Signals(told.code - 128).name
        log.info("ends: %s", served.failure or f"told to by {by}")
        is_clean = served.end(int(stop_seconds * 1000))
        if not is_clean:
            # A thread that hangs at a root would keep Python from ending.
            if served.failure is not None:
                log.critical("%s", served.failure)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0 if served.failure is None else FAILED)
    if served.failure is not None:
        raise ServingFailedError(served.failure)

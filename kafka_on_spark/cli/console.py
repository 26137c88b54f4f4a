"""`console`: a local web page of the cluster, until it is told to end."""

import os
import sys
from contextlib import suppress
from typing import Annotated, Final

import typer

from kafka_on_spark.cli.interrupts import Interrupts
from kafka_on_spark.cli.options import ClusterUrl, StorageOption
from kafka_on_spark.cli.output import say
from kafka_on_spark.cli.session import Session
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.store.daemon_threads import DaemonThreads

CLOSE_S: Final = 5.0
"""The cluster is closed within that time of the end, or the process ends without."""

SLICE_S: Final = 0.25


def console(
    cluster: ClusterUrl,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, help="The port of the page; 0: any that is free."),
    ] = 0,
    storage_option: StorageOption = None,
) -> None:
    """Show the cluster as a web page on this machine alone, until SIGTERM, SIGINT or SIGHUP.

    Prints the address of the page, with a token that only its readers know. The page follows the
    metadata log, and changes nothing.
    """
    # In the function: the server's modules are needed by no other verb.
    from kafka_on_spark.console.console import Console

    with Session(cluster, storage_option).opened() as session:
        page = Console(session.cluster, port=port)
        with Interrupts(page.end):
            say(page.address)
            sys.stdout.flush()  # a script that reads it goes on
            page.run()
            _close(session.cluster)


def _close(cluster: Cluster) -> None:
    """Close the cluster. A thread that hangs at a root would keep Python from ending: then the
    process ends as if it was killed, which nobody misses, since it holds nothing."""
    closing = DaemonThreads(1, "close").submit(cluster.close)
    # In slices: a second signal that another thread was given does not wake this one.
    for _ in range(round(CLOSE_S / SLICE_S)):
        with suppress(TimeoutError):
            return closing.result(SLICE_S)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

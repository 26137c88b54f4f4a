"""What Kafka's brokers do by themselves: `controller`, `replicate` and `maintain` do a share of it.
`serve` does all of it, and `console` shows a page, until they are told to end.

The last two end by os._exit where a thread may hang at a root, which would keep Python from ending.
"""

import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from kafka_on_spark.base.config import HOLD, HOLD_MS_MAX
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli import process
from kafka_on_spark.cli.kafka_files import named_topics
from kafka_on_spark.cli.options import FAILED, FOUND
from kafka_on_spark.cli.output import note, plural, say, time_text
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.cli.verbs import Action, Session, alone, verb
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.store.root_urls import cluster_url

if TYPE_CHECKING:
    from kafka_on_spark.console.serving import ServedCluster
    from kafka_on_spark.gateway.gateway import Gateway
    from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)

WAIT_S: Final = 0.2
"""How often the main thread looks whether a signal was sent: one that another thread was given does
not wake it."""

FORMAT_VARIABLE: Final = "KAFKA_ON_SPARK_LOG_FORMAT"


def describe(session: Session) -> None:
    """Show the active controller."""
    image = session.cluster.image
    lease = image.controller
    states = [broker.state for broker in image.brokers.values()]
    answer = {
        "cluster_id": image.cluster_id,
        "controller": None if lease is None else lease.controller_id,
        "controller_epoch": None if lease is None else lease.controller_epoch,
        "lease_offset": None if lease is None else lease.offset,
        "metadata_offset": image.offset,
        "metadata_time": time_text(image.time_ms),
        "pending_requests": len(image.requests),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        **{f"brokers_{each.value}": states.count(each) for each in BrokerState},
    }
    session.write_answer(answer)


def run(session: Session, seconds: float | None = None) -> None:
    """Be the controller: probe brokers, elect leaders, move replicas."""
    lease = session.cluster.image.controller
    if lease is not None and lease.controller_id is not None:
        note(
            f"Waits until {lease.controller_id} resigns, or has not renewed its lease: where"
            " `serve` runs, it controls, and this is not needed."
        )
    report = session.cluster.run_controller(seconds)
    session.write_answer(asdict(report))


controller = verb(
    """Show the active controller, or be it for one pass or some seconds.

    A new controller waits until the one before has resigned or stopped renewing its lease. An
    interrupted controller resigns.

    Options:
        --seconds NUMBER>=0  With --run: for so long; without it, one pass.
    """,
    Action(describe, "as_of"),
    Action(run, "dry_run", at_most_one_of=("dry_run seconds",)),
)


@alone(
    """Bring followers up to their leaders in one round, and say whether all are in sync.

    A round visits the partitions with work and inspects a part of the others, so that rounds
    inspect every replica within ten minutes (replica.sweep.interval.ms). The exit code is 1
    while a follower is behind or out of sync, or a partition was not inspected in time: run it
    again, and a controller.

    Options:
        --sweep  Visit all partitions, not only those with work.
    """
)
def replicate(
    session: Session, topic: str | None = None, include: str | None = None, sweep: bool = False
) -> None:
    report = session.cluster.replicate(_topics(session, topic, include), is_sweep=sweep)
    answer = asdict(report)
    if not session.is_json:
        for sentence in answer.pop("failures"):
            note(sentence)
    session.write_answer(answer)
    raise typer.Exit(0 if report.is_caught_up else FOUND)


def _topics(session: Session, topic: str | None, include: str | None) -> list[str] | None:
    if topic is None and include is None:
        return None
    return named_topics(session.cluster.image, topic, include)


def _hold(session: Session, given: str) -> str | None:
    """Hold deletes for a time; return until when."""
    found = re.fullmatch(r"(\d{1,5})([smh])", given)
    duration_ms = (
        int(found[1]) * {"s": 1000, "m": 60_000, "h": 3_600_000}[found[2]] if found else -1
    )
    if not 0 <= duration_ms <= HOLD_MS_MAX:
        raise InvalidRequestError(
            f"--hold-deletes can't be {given!r}: give seconds, minutes or hours, a day at most,"
            " such as 90s, 30m or 2h; 0s ends it"
        )
    until_ms = session.cluster._node.clock.now_ms() + duration_ms if duration_ms else None
    session.cluster.alter_cluster_configs({HOLD: until_ms})
    return None if until_ms is None else time_text(until_ms)


@alone(
    """Do all upkeep of replicas that is due now, and say what was done.

    Rounds of replication and passes of the controller do a share of it by themselves
    (log.cleaner.share), and this call all at once, as fast as
    log.cleaner.io.max.bytes.per.second lets it. The exit code is 1 if something is left,
    because it went wrong, or could not be looked at: a broker is fenced, or a partition has no
    leader.

    Or have nothing deleted, merged or compacted for a while, while the roots are copied.

    Options:
        --hold-deletes TIME  Do no upkeep, for 90s, 30m or 2h, 24h at most; 0s: go on with it.
        --dry-run  Say what is due, and change nothing.
    """,
    at_most_one_of=("hold_deletes topic", "hold_deletes include", "hold_deletes dry_run"),
)
def maintain(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    hold_deletes: str | None = None,
    dry_run: bool = False,
) -> None:
    if hold_deletes is not None:
        session.conclude({"held_until": _hold(session, hold_deletes)})
        return
    topics = _topics(session, topic, include)
    report = session.cluster.maintain(topics, is_dry_run=dry_run)
    rows = [asdict(row) for row in report.rows]
    if not session.is_json:
        for each in report.not_looked_at:
            note(f"not looked at: {each}")
    answer = {"dry_run": dry_run, "replicas": report.visited, "rows": rows}
    session.show(
        {**answer, "not_looked_at": list(report.not_looked_at)},
        f"Visited {plural(report.visited, 'replica')}{', changed nothing' if dry_run else ''}.",
        rows=rows,
    )
    raise typer.Exit(FOUND if report.is_left else 0)


@alone(
    """Keep a cluster going: control it, replicate, do all upkeep, until SIGTERM, SIGINT or SIGHUP.

    Of several such processes one is the controller; the others stand by, and one of them takes over
    once it has not renewed its lease for controller.lease.ms. Roots that are away, full or
    read-only are waited for. The exit code is 0 when it was told to end.

    Options:
        --spark
            Run tasks on Spark's executors: of spark-submit, if that starts this process. Without
            it, in threads.
        --health-port INTEGER>=0<=65535
            Answer GET /healthz, /readyz and /metrics at this port; 0: at any that is free.
        --health-host ADDRESS  The address of that port.
        --log-format text|json
            Lines of text, or a JSON object a line; without it, KAFKA_ON_SPARK_LOG_FORMAT says.
        --stop-seconds NUMBER>=1<=31622400
            It ends within that time of SIGTERM, come what may.
        --kafka HOST:PORT
            Answer clients that speak Kafka's protocol, at an address of this machine alone.
        --only kafka  Do nothing else.
    """,
    is_open=False,
    has_format=False,
)
def serve(
    session: Session,
    spark: bool = False,
    health_port: int | None = None,
    health_host: str = "127.0.0.1",
    log_format: str | None = None,
    stop_seconds: float = 20.0,
    kafka: str | None = None,
    only: str | None = None,
) -> None:
    # In the functions of this file: each verb needs only a part of all this.
    from kafka_on_spark.console.serving import ServedCluster, ServingFailedError

    process.set_up(log_format or os.environ.get(FORMAT_VARIABLE) or "text", "INFO")
    if only is not None and (only != "kafka" or kafka is None):
        raise InvalidRequestError("--only can be 'kafka' alone: give it with --kafka")
    root = cluster_url(session.url)
    spark_session = None
    if spark:
        from kafka_on_spark.spark.session import build_session

        spark_session = build_session("kafka-on-spark serve")
    served = ServedCluster(root, session.options, spark_session)
    taken = None if kafka is None else _gateway_socket(kafka)
    if health_port is not None:
        address = answer_probes(health_host, health_port, served)
        log.info("answers /healthz, /readyz and /metrics at %s", address)
    # After Spark's session, which takes one of the signals for itself.
    with Interrupts(lambda: None) as told:
        log.info("serves the cluster at %s", root)
        served.begin(only_opens=only is not None)
        _wait(served, told, taken)
        by = "" if told.code is None else signal.Signals(told.code - 128).name
        log.info("ends: %s", served.failure or f"told to by {by}")
        if not served.end(int(stop_seconds * 1000)):
            if served.failure is not None:
                log.critical("%s", served.failure)
            _leave(0 if served.failure is None else FAILED)
    if served.failure is not None:
        raise ServingFailedError(served.failure)


def _gateway_socket(address: str) -> socket.socket:
    try:
        from kafka_on_spark.gateway.gateway import listening_at
    except ImportError as error:
        raise InvalidRequestError(
            f"--kafka needs the package {error.name}: install kafka_on_spark[kafka]"
        ) from error
    return listening_at(address)


def _wait(served: "ServedCluster", told: Interrupts, taken: socket.socket | None) -> None:
    """Wait for the end of a served cluster; answer Kafka's clients once it is open."""
    gateway: Gateway | None = None
    while not served.ended.wait(WAIT_S) and told.code is None:
        if taken is not None and gateway is None and served.node is not None:
            gateway = _begun_gateway(served.node, taken)
    if gateway is not None:
        gateway.end()


def _begun_gateway(node: "Node", taken: socket.socket) -> "Gateway":
    from kafka_on_spark.gateway.gateway import Gateway

    gateway = Gateway(node, taken)
    gateway.begin()
    log.info("answers clients of Kafka's protocol at %s:%d", gateway.host, gateway.port)
    return gateway


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def answer_probes(host: str, port: int, served: "ServedCluster") -> str:
    """Answer requests for /healthz, /readyz and /metrics in a thread of its own, as long as the
    process lives; return the address, as a client writes it. A probe is answered by 200 if its
    answer is "yes", and else by 503; JSON says why."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from kafka_on_spark.console.http_server import HttpServer, listening, shown
    from kafka_on_spark.observe.figures import OPENMETRICS, openmetrics

    def probe(path: str, ask: Callable[[], dict[str, Any]]) -> Route:
        async def answer(request: Request) -> Response:
            body = ask()
            text = json.dumps(body, indent=2) + "\n"
            return Response(text, 200 if body["ok"] else 503, media_type="application/json")

        return Route(path, answer)

    def metrics(request: Request) -> Response:  # in a thread: a disk may hang for a moment
        text = openmetrics(served.metrics(), has_process=True)
        return Response(text, headers={"Content-Type": OPENMETRICS})

    def failed(request: Request, error: Exception) -> Response:
        log.error("the page %s has failed", request.url.path, exc_info=error)
        return Response("this page has failed: the log says why\n", 500)

    pages = [
        probe("/healthz", served.health),
        probe("/readyz", served.readiness),
        Route("/metrics", metrics),
    ]
    app = Starlette(routes=pages, exception_handlers={Exception: failed})
    taken = listening(host, port, what="the health port", options="--health-port or --health-host")
    # The log is not for clients that send something else than HTTP.
    server = HttpServer(app, log_level="critical")
    run = partial(server.run, sockets=[taken])
    threading.Thread(target=run, name="health", daemon=True).start()
    return f"http://{shown(host)}:{taken.getsockname()[1]}"


@alone(
    """Show the cluster as a web page on this machine alone, until SIGTERM, SIGINT or SIGHUP.

    Prints the address of the page, with a token that only its readers know. The page follows the
    metadata log, and changes nothing.

    Options:
        --port INTEGER>=0<=65535  The port of the page; 0: any that is free.
    """,
    has_format=False,
)
def console(session: Session, port: int = 0) -> None:
    from kafka_on_spark.console.console import Console

    page = Console(session.cluster, port=port)
    with Interrupts(page.end):
        say(page.address)
        sys.stdout.flush()  # a script that reads it goes on
        page.run()
    _leave(0)  # nobody misses the cluster, which holds nothing, and closing it may wait for a root

"""`controller`: shows the active controller, or is it for one pass or some seconds."""

from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    StorageOption,
    chosen_action,
)
from kafka_on_spark.cli.call.output import (
    Output,
    note,
    plural,
    say,
    write_json,
    write_rows,
)
from kafka_on_spark.cli.call.record_rows import time_text
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage

ACTIONS: Final = {"describe": ("as_of",), "run": ("seconds", "dry_run")}
COLUMNS: Final = {"name": "what", "value": "value"}


def controller(
    context: typer.Context,
    cluster: ClusterUrl,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show the active controller.")
    ] = False,
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Be the controller: probe brokers, elect leaders, move replicas."
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, help="With --run: for so long; without it, one pass."),
    ] = None,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show the active controller, or be it for one pass or some seconds.

    A new controller waits until the one before has resigned or stopped renewing its lease. An
    interrupted controller resigns.
    """
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, as_of=as_of) as session:
        if action == "run":
            _run(session, seconds)
            return
        answer = status(session.cluster.image)
        if output is Output.JSON:
            write_json(answer)
        else:
            rows = [{"name": name.replace("_", " "), "value": answer[name]} for name in answer]
            write_rows(output, COLUMNS, rows)


def status(image: MetadataImage) -> dict[str, Any]:
    """Return a cluster's active controller, and how far its metadata log has come."""
    lease = image.controller
    states = [broker.state for broker in image.brokers.values()]
    return {
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


def _run(session: Session, seconds: float | None) -> None:
    words = "one pass" if seconds is None else f"controlling for {seconds:g} s"
    if session.dry_run is not None and seconds is not None:
        raise InvalidRequestError("--dry-run goes with one pass: leave --seconds out")
    report = session.do(lambda: session.cluster.run_controller(seconds), words)
    if session.output is Output.JSON:
        write_json(
            {
                "passes": report.passes,
                "fenced": list(report.fenced),
                "unfenced": list(report.unfenced),
                "leaders_moved": report.leaders_moved,
                "records_deleted": report.records_deleted,
                "upkeep_failures": list(report.upkeep_failures),
            }
        )
        return
    say(
        f"{report.passes} {'pass' if report.passes == 1 else 'passes'}:"
        f" fenced {_names(report.fenced)}, came back {_names(report.unfenced)},"
        f" {plural(report.leaders_moved, 'partition')} with another leader."
        + (
            f" Retention deleted {plural(report.records_deleted, 'record')}."
            if report.records_deleted
            else ""
        )
    )
    for failure in report.upkeep_failures:
        note(failure)


def _names(broker_ids: tuple[int, ...]) -> str:
    return " and ".join(f"broker {each}" for each in broker_ids) or "no broker"

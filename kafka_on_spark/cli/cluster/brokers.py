"""`brokers`: lists, describes, registers, drains, resumes and unregisters brokers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    CHANGING,
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    RootMode,
    StorageOption,
    Yes,
    chosen_action,
    mode_of,
    needed,
)
from kafka_on_spark.cli.call.output import Output, plural, write_rows
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.controller.brokers.draining import registered_broker
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.service.describe.descriptions import BrokerDescription, describe_brokers
from kafka_on_spark.storage.identity.root_identity import check_reachable
from kafka_on_spark.storage.roots.roots import normalize

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "list_": ("as_of",),
    "describe": ("broker", "as_of"),
    "register": ("broker", "root", "rack", "root_mode", *CHANGING),
    "drain": ("broker", *CHANGING),
    "resume": ("broker", *CHANGING),
    "unregister": ("broker", *CHANGING),
}
LIST_COLUMNS: Final = {
    "broker": "broker",
    "state": "state",
    "rack": "rack",
    "root": "root",
    "writes": "writes",
}
COLUMNS: Final = {
    "broker": "broker",
    "state": "state",
    "rack": "rack",
    "leaders": "leads",
    "preferred": "preferred",
    "replicas": "replicas",
    "in_sync": "in sync",
    "lost": "lost",
    "root": "root",
    "writes": "writes",
}


def brokers(
    context: typer.Context,
    cluster: ClusterUrl,
    list_: Annotated[
        bool, typer.Option("--list", help="Show brokers, their states and roots.")
    ] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show also what each broker leads and holds.")
    ] = False,
    register: Annotated[
        bool, typer.Option("--register", help="Add a broker, or give a fenced one another disk.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Move a broker's leaderships to others.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Let a draining broker lead again.")
    ] = False,
    unregister: Annotated[
        bool, typer.Option("--unregister", help="Remove a broker that has no replicas.")
    ] = False,
    broker: Annotated[int | None, typer.Option("--broker", "--id", help="The broker's id.")] = None,
    root: Annotated[
        str | None, typer.Option("--root", metavar="URL", help="Its root: a folder or a URL.")
    ] = None,
    rack: Annotated[str | None, typer.Option("--rack", help="Its failure domain.")] = None,
    root_mode: RootMode = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """List, describe, register, drain, resume or unregister brokers."""
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes, as_of=as_of) as session:
        if action in ("list_", "describe"):
            image = session.cluster.image
            if broker is not None:
                registered_broker(image, BrokerId(broker))
            rows = [_row(each) for each in describe_brokers(image)]
            rows = [row for row in rows if broker in (None, row["broker"])]
            write_rows(output, LIST_COLUMNS if action == "list_" else COLUMNS, rows)
            return
        broker_id = needed(broker, "--broker", "give the broker's id")
        if action == "register":
            _register(session, broker_id, context.params)
        else:
            _DO[action](session, broker_id)


def _row(broker: BrokerDescription) -> dict[str, Any]:
    refused = broker.registration.refused
    return {
        "broker": broker.registration.broker_id,
        "state": broker.registration.state.value,
        "rack": broker.registration.rack,
        "root": broker.registration.root,
        "broker_epoch": broker.registration.broker_epoch,
        "directory_id": broker.registration.directory_id,
        "leaders": broker.leader_count,
        "preferred": broker.preferred_count,
        "replicas": broker.replica_count,
        "in_sync": broker.in_sync_count,
        "lost": broker.lost_count,
        "writes": None if refused is None else f"refused: {refused}",
    }


def _register(session: Session, broker_id: int, given: Mapping[str, Any]) -> None:
    root = needed(given["root"], "--root", "name the folder or URL of the broker")
    mode, rack = mode_of(given["root_mode"]), given["rack"]
    _confirm_another_disk(session, broker_id, root)
    session.do(lambda: session.cluster.register_broker(broker_id, root, rack=rack, root_mode=mode))
    session.conclude(
        f"Registered broker {broker_id} with the root {normalize(root)}.",
        {"broker": broker_id, "root": normalize(root), "rack": rack},
    )


def _confirm_another_disk(session: Session, broker_id: int, root: str) -> None:
    """Ask before a fenced broker's replicas are given up for another disk."""
    described = {
        each.registration.broker_id: each for each in describe_brokers(session.cluster.image)
    }
    known = described.get(BrokerId(broker_id))
    if known is None or known.registration.is_online or not known.replica_count:
        return
    found = check_reachable(normalize(root), session.options)
    if found is None or found.directory_id != known.registration.directory_id:
        session.confirm(
            f"giving broker {broker_id} another disk, and giving up what its"
            f" {plural(known.replica_count, 'replica')} had on {known.registration.root},"
        )


def _drain(session: Session, broker_id: int) -> None:
    moved = session.do(lambda: session.cluster.drain_broker(broker_id))
    left = sum(
        each.leader_count
        for each in describe_brokers(session.cluster.image)
        if each.registration.broker_id == broker_id
    )
    rest = f"; it leads {plural(left, 'partition')} until others can" if left else ""
    session.conclude(
        f"Broker {broker_id} is draining: {plural(len(moved), 'leadership')} moved{rest}.",
        {
            "broker": broker_id,
            "state": "draining",
            "moved": [each._asdict() for each in moved],
            "still_leads": left,
        },
    )


def _resume(session: Session, broker_id: int) -> None:
    session.do(lambda: session.cluster.resume_broker(broker_id))
    session.conclude(
        f"Broker {broker_id} may lead and be in sync again.",
        {"broker": broker_id, "state": "active"},
    )


def _unregister(session: Session, broker_id: int) -> None:
    session.do(lambda: session.cluster.unregister_broker(broker_id))
    session.conclude(
        f"Unregistered broker {broker_id}.", {"broker": broker_id, "state": "unregistered"}
    )


_DO: Final = {"drain": _drain, "resume": _resume, "unregister": _unregister}

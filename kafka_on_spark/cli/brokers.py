"""`brokers`: lists, describes, registers, drains, resumes and unregisters brokers."""

from typing import Annotated, Any

import typer

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.cli.actions import CHANGING, Action, verb
from kafka_on_spark.cli.options import RootMode
from kafka_on_spark.cli.output import plural, write_rows
from kafka_on_spark.cli.session import Session
from kafka_on_spark.controller.brokers import registered_broker
from kafka_on_spark.observe.descriptions import describe_brokers
from kafka_on_spark.store.root_identity import ROOT_MODE, check_reachable
from kafka_on_spark.store.roots import normalize

Broker = Annotated[int, typer.Option("--broker", "--id", help="The broker's id.")]


def list_(session: Session) -> None:
    """Show brokers, their states and roots."""
    write_rows(session.output, "broker state rack root writes", _rows(session, None))


def describe(session: Session, broker: Broker | None = None) -> None:
    """Show also what each broker leads and holds."""
    columns = "broker state rack leaders preferred replicas in_sync lost root writes"
    write_rows(session.output, columns, _rows(session, broker))


def _rows(session: Session, wanted: int | None) -> list[dict[str, Any]]:
    image = session.cluster.image
    if wanted is not None:
        registered_broker(image, BrokerId(wanted))
    return [row for row in describe_brokers(image) if wanted in (None, row["broker"])]


def register(
    session: Session,
    broker: Broker,
    root: Annotated[str, typer.Option(metavar="URL", help="Its root: a folder or a URL.")],
    rack: Annotated[str, typer.Option(help="Its failure domain.")] | None = None,
    root_mode: RootMode = ROOT_MODE,
) -> None:
    """Add a broker, or give a fenced one another disk."""
    _confirm_another_disk(session, broker, root)
    session.cluster.register_broker(broker, root, rack=rack, root_mode=root_mode)
    session.conclude({"broker": broker, "root": normalize(root), "rack": rack})


def _confirm_another_disk(session: Session, broker_id: int, root: str) -> None:
    """Ask before a fenced broker's replicas are given up for another disk."""
    known = next((each for each in _rows(session, None) if each["broker"] == broker_id), None)
    if known is None or known["state"] != "fenced" or not known["replicas"]:
        return
    found = check_reachable(normalize(root), session.options)
    if found is None or found.directory_id != known["directory_id"]:
        session.confirm(
            f"giving broker {broker_id} another disk, and giving up what its"
            f" {plural(known['replicas'], 'replica')} had on {known['root']},"
        )


def drain(session: Session, broker: Broker) -> None:
    """Move a broker's leaderships to others."""
    moved = session.cluster.drain_broker(broker)
    [left] = [each["leaders"] for each in _rows(session, broker)]
    session.conclude(
        {
            "broker": broker,
            "state": "draining",
            "moved": [each._asdict() for each in moved],
            "still_leads": left,
        },
    )


def resume(session: Session, broker: Broker) -> None:
    """Let a draining broker lead again."""
    session.cluster.resume_broker(broker)
    session.conclude({"broker": broker, "state": "active"})


def unregister(session: Session, broker: Broker) -> None:
    """Remove a broker that has no replicas."""
    session.cluster.unregister_broker(broker)
    session.conclude({"broker": broker, "state": "unregistered"})


brokers = verb(
    "List, describe, register, drain, resume or unregister brokers.",
    Action(list_, "as_of"),
    Action(describe, "as_of"),
    Action(register, *CHANGING),
    Action(drain, *CHANGING),
    Action(resume, *CHANGING),
    Action(unregister, *CHANGING),
)

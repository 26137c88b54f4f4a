"""`cluster`: creates a cluster, or describes one."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.actions import Action, verb
from kafka_on_spark.cli.options import RootMode, pairs
from kafka_on_spark.cli.output import Output, plural, say, write_answer, write_json, write_rows
from kafka_on_spark.cli.session import Session
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.store.root_identity import ROOT_MODE


def create(
    session: Session,
    broker: Annotated[
        list[str],
        typer.Option(
            metavar="ID=ROOT[,RACK]",
            help="A broker of the new cluster; may be given more than once.",
        ),
    ],
    config: Annotated[
        list[str], typer.Option(metavar="NAME=VALUE", help="A setting of the new cluster.")
    ]
    | None = None,
    root_mode: RootMode = ROOT_MODE,
) -> None:
    """Create a cluster: its metadata root, or several with a voter on each, and its brokers."""
    roots, racks = brokers_of(broker)
    created = Cluster.create(
        session.url,
        roots,
        racks=racks or None,
        configs=pairs(config, "--config"),
        storage_options=session.storage_options,
        root_mode=root_mode,
    )
    with created:
        answer = _answer(created)
    if session.output is Output.JSON:
        write_json(answer)
    else:
        say(
            f"Created the cluster {answer['cluster_id']} at {answer['metadata_root']} with"
            f" {plural(len(roots), 'broker')}."
        )


def brokers_of(given: Sequence[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Return roots and racks by broker id, from texts like "1=/disks/a,north".

    The rack follows the last comma; a root that contains a comma needs a rack.

    Raises:
        InvalidRequestError: A text has another form, or an id is given twice.
    """
    roots: dict[int, str] = {}
    racks: dict[int, str] = {}
    for each in given:
        number, equals, place = each.partition("=")
        root, comma, rack = place.rpartition(",")
        if not comma:
            root, rack = place, ""
        if not number.strip().isdecimal() or not equals or not root or (comma and not rack):
            raise InvalidRequestError(
                f"--broker can't be {each!r}: give ID=ROOT or ID=ROOT,RACK, as in 1=/disks/a,north"
            )
        broker_id = int(number)
        if broker_id in roots:
            raise InvalidRequestError(
                f"--broker gives broker {broker_id} twice: give each id once, with its root"
            )
        roots[broker_id] = root
        if rack:
            racks[broker_id] = rack.strip()
    return roots, racks


def describe(session: Session) -> None:
    """Show its id, its settings and its brokers."""
    answer = _answer(session.cluster)
    if session.output is Output.JSON:
        write_json(answer)
        return
    brokers = answer.pop("brokers")
    write_answer(session.output, answer)
    write_rows(session.output, "broker state rack root", brokers)


def _answer(cluster: Cluster) -> dict[str, Any]:
    image = cluster.image
    return {
        "cluster_id": image.cluster_id,
        "metadata_root": cluster.root,
        "metadata_table": cluster.metadata_table,
        "configs": dict(sorted(image.configs.items())),
        "brokers": [
            {
                "broker": each.broker_id,
                "state": each.state.value,
                "rack": each.rack,
                "root": each.root,
            }
            for _, each in sorted(image.brokers.items())
        ],
    }


cluster = verb(
    "Create a cluster on storage roots, or describe one.\n\n"
    "Each root is tested first, and a root that is in use is refused. Source: kafka-storage format"
    " and kafka-cluster.",
    Action(create, is_open=False),
    Action(describe),
)

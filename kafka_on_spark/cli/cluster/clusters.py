"""`cluster`: creates a cluster, or describes one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    Format,
    RootMode,
    StorageOption,
    chosen_action,
    mode_of,
    needed,
    pairs,
)
from kafka_on_spark.cli.call.output import (
    Output,
    plural,
    progress,
    say,
    write_json,
    write_rows,
)
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.errors import InvalidRequestError

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "create": ("broker", "config", "root_mode"),
    "describe": (),
}
COLUMNS: Final = {"broker": "broker", "state": "state", "rack": "rack", "root": "root"}


def cluster(
    context: typer.Context,
    cluster: Annotated[
        str,
        typer.Option(
            "--metadata-root",
            "--cluster",
            "--bootstrap-server",
            envvar="KAFKA_ON_SPARK_CLUSTER",
            metavar="URL",
            help="The cluster's metadata root: a folder or a URL; or several, with commas between."
            " A new cluster has a voter of its metadata log on each.",
        ),
    ],
    create: Annotated[
        bool, typer.Option("--create", help="Create a cluster: its metadata root and its brokers.")
    ] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show its id, its settings and its brokers.")
    ] = False,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            "--broker",
            metavar="ID=ROOT[,RACK]",
            help="A broker of the new cluster; may be given more than once.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A setting of the new cluster."),
    ] = None,
    root_mode: RootMode = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Create a cluster on storage roots, or describe one.

    Each root is tested first, and a root that is in use is refused. Source: kafka-storage format
    and kafka-cluster.
    """
    if chosen_action(context, ACTIONS) == "create":
        _create(context.params)
        return
    with opened(cluster, storage_option, output) as session:
        _describe(session.cluster, output)


def _create(given: Mapping[str, Any]) -> None:
    brokers = needed(given["broker"], "--broker", "give each broker as ID=ROOT, or ID=ROOT,RACK")
    roots, racks = brokers_of(brokers)
    with progress("creating the cluster"):
        created = Cluster.create(
            given["cluster"],
            roots,
            racks=racks or None,
            configs=pairs(given["config"], "--config"),
            storage_options=pairs(given["storage_option"], "--storage-option"),
            root_mode=mode_of(given["root_mode"]),
        )
    with created:
        answer = _answer(created)
    if given["output"] is Output.JSON:
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


def _describe(cluster: Cluster, output: Output) -> None:
    answer = _answer(cluster)
    if output is Output.JSON:
        write_json(answer)
        return
    settings = ", ".join(f"{name}={value}" for name, value in answer["configs"].items())
    say(
        f"Cluster {answer['cluster_id']} at {answer['metadata_root']}, its own settings:"
        f" {settings or 'none'}."
    )
    say(f"Its metadata log, for SQL: {answer['metadata_table']}")
    write_rows(output, COLUMNS, answer["brokers"])


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

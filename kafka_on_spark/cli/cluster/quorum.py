"""`metadata-quorum`: shows who leads the metadata log, and how far each of its voters is."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import ClusterUrl, Format, StorageOption, chosen_action
from kafka_on_spark.cli.call.output import Output, write_rows
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.raft.quorum.description import QuorumDescription, VoterDescription

ACTIONS: Final = {"status": ("deed",), "replication": ("deed",)}
STATUS_COLUMNS: Final = {"name": "what", "value": "value"}
REPLICATION_COLUMNS: Final = {
    "node_id": "node",
    "directory_id": "directory",
    "log_end_offset": "log end offset",
    "lag": "lag",
    "epoch": "epoch",
    "status": "status",
    "root": "root",
    "problem": "problem",
}


class Deed(StrEnum):
    """What the verb does."""

    DESCRIBE = "describe"


def metadata_quorum(
    context: typer.Context,
    deed: Annotated[Deed, typer.Argument(help="What to do.")],
    cluster: ClusterUrl,
    status: Annotated[
        bool, typer.Option("--status", help="Who leads, in which epoch, and who votes.")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="How far each voter is.")
    ] = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show who leads the metadata log, and how far each of its voters is."""
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output) as session:
        found = session.cluster.describe_quorum()
        if action == "status":
            cluster_id = session.cluster.image.cluster_id
            write_rows(output, STATUS_COLUMNS, _status_rows(found, cluster_id))
        else:
            write_rows(output, REPLICATION_COLUMNS, map(_replication_row, found.voters))


def _status_rows(found: QuorumDescription, cluster_id: str | None) -> Iterator[dict[str, Any]]:
    values = {
        "cluster id": cluster_id,
        "leader": found.leader.node_id,
        "leader epoch": found.epoch,
        "high watermark": found.high_watermark,
        "max follower lag": found.lag_max,
        "voters": [each.voter.key.node_id for each in found.voters],
        "roots": [each.voter.root for each in found.voters],
        "away": [each.voter.key.node_id for each in found.voters if each.problem is not None],
    }
    for name, value in values.items():
        yield {"name": name, "value": value}


def _replication_row(each: VoterDescription) -> dict[str, Any]:
    return {
        "node_id": each.voter.key.node_id,
        "directory_id": each.voter.key.directory_id,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "epoch": each.epoch,
        "status": "Leader" if each.leads else "Follower",
        "root": each.voter.root,
        "problem": each.problem,
    }

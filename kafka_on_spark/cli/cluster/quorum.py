"""`metadata-quorum`: shows who leads the metadata log and who votes, and changes both."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    CHANGING,
    ClusterUrl,
    DryRun,
    Format,
    RootMode,
    StorageOption,
    Yes,
    chosen_action,
    mode_of,
)
from kafka_on_spark.cli.call.output import Output, write_rows
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.raft.quorum.description import QuorumDescription, VoterDescription
from kafka_on_spark.raft.voter_set import Voter, majority_of

ACTIONS: Final = {"status": ("deed",), "replication": ("deed",)}
CHANGES: Final[Mapping[str, Sequence[str]]] = {
    "add-controller": ("deed", "name", "root_mode", *CHANGING),
    "remove-controller": ("deed", "name", *CHANGING),
    "elect": ("deed", "to", *CHANGING),
}
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
    ADD = "add-controller"
    REMOVE = "remove-controller"
    ELECT = "elect"


def metadata_quorum(
    context: typer.Context,
    deed: Annotated[Deed, typer.Argument(help="What to do.")],
    cluster: ClusterUrl,
    name: Annotated[
        str | None,
        typer.Argument(
            help="The new voter's root, for add-controller; a voter's id, for remove-controller."
        ),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Who leads, in which epoch, and who votes.")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="How far each voter is.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="VOTER", help="Who is to lead, an id; else the best and lowest."
        ),
    ] = None,
    root_mode: RootMode = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show who leads the metadata log and how far each of its voters is, or change them."""
    if deed is not Deed.DESCRIBE:
        if status or replication:
            raise InvalidRequestError(
                f"--status and --replication don't go with {deed}: use them with describe"
            )
        chosen_action(context, CHANGES, default=deed.value)
        with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
            _CHANGE[deed](session, name, context.params)
        return
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


def _add(session: Session, name: str | None, given: Mapping[str, Any]) -> None:
    root = _named(name, "the folder or URL of the new voter's root")
    mode = mode_of(given["root_mode"])
    done = session.do(lambda: session.cluster.add_controller(root, root_mode=mode))
    if done is None:
        session.conclude("", {})
        return
    session.conclude(
        [f"Added voter {done.voter.key.node_id} at {done.voter.root}.", _needed(done.voters)],
        {"added": _voter(done.voter), "voters": [_voter(each) for each in done.voters]},
    )


def _remove(session: Session, name: str | None, given: Mapping[str, Any]) -> None:
    voter = _named(name, "the voter's id")
    session.confirm(
        f"removing voter {voter} from the metadata quorum",
        lambda cluster: cluster.remove_controller(voter),
    )
    done = session.do(lambda: session.cluster.remove_controller(voter))
    if done is None:
        session.conclude("", {})
        return
    lines = [f"Removed voter {done.voter.key.node_id} at {done.voter.root}.", _needed(done.voters)]
    if not done.is_marked:
        lines.append(
            "Its root could not be reached, and does not say so: take it off all lists of metadata"
            " roots, and empty it before it is used again."
        )
    session.conclude(
        lines,
        {
            "removed": _voter(done.voter),
            "voters": [_voter(each) for each in done.voters],
            "is_marked": done.is_marked,
        },
    )


def _elect(session: Session, name: str | None, given: Mapping[str, Any]) -> None:
    leader = session.do(lambda: session.cluster.elect_controller(given["to"]))
    if leader is None:
        session.conclude("", {})
        return
    session.conclude(
        f"Voter {leader.key.node_id} leads the metadata quorum, at {leader.root}.",
        {"leader": _voter(leader)},
    )


def _named(name: str | None, what: str) -> str:
    if name is None:
        raise InvalidRequestError(f"name {what}, after the verb")
    return name


def _needed(voters: Sequence[Voter]) -> str:
    """Return how many voters may be lost now."""
    count = len(voters)
    words = f"There are {count} voters, of which {majority_of(count)} must answer"
    if count == 1:
        return "There is one voter: if its root is lost, the cluster is."
    return f"{words}: an odd number is better." if count % 2 == 0 else f"{words}."


def _voter(voter: Voter) -> dict[str, Any]:
    return {
        "node_id": voter.key.node_id,
        "directory_id": voter.key.directory_id,
        "root": voter.root,
    }


_CHANGE: Final = {Deed.ADD: _add, Deed.REMOVE: _remove, Deed.ELECT: _elect}

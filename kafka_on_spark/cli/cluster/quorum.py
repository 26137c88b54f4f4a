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
    needed,
    pairs,
)
from kafka_on_spark.cli.call.output import (
    Output,
    confirm,
    plural,
    progress,
    say,
    write_json,
    write_rows,
)
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.raft.quorum.description import QuorumDescription, VoterDescription
from kafka_on_spark.raft.voter_set import Voter, majority_of
from kafka_on_spark.spark.wiring.forcing import ForcedGeneration, check_forcing
from kafka_on_spark.storage.roots.root_lists import cluster_url
from kafka_on_spark.storage.roots.roots import StorageOptions

ACTIONS: Final = {"status": ("deed",), "replication": ("deed",)}
CHANGES: Final[Mapping[str, Sequence[str]]] = {
    "add-controller": ("deed", "name", "root_mode", *CHANGING),
    "remove-controller": ("deed", "name", *CHANGING),
    "elect": ("deed", "to", *CHANGING),
    "force": ("deed", "from_", *CHANGING),
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
    FORCE = "force"


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
        bool, typer.Option("--replication", help="How far each voter is, and its state.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="VOTER", help="Who is to lead, an id; else the best and lowest."
        ),
    ] = None,
    from_: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="VOTER",
            help="Who goes on alone, an id; for force, where a majority is lost for ever.",
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
        if deed is Deed.FORCE:
            _force(cluster, context.params)
            return
        with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
            _CHANGE[deed](session, name, context.params)
        return
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output) as session:
        with progress("asking voters"):
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
        "status": each.state,
        "root": each.voter.root,
        "problem": each.problem,
    }


def _add(session: Session, name: str | None, given: Mapping[str, Any]) -> None:
    root = _named(name, "the folder or URL of the new voter's root")
    mode = mode_of(given["root_mode"])
    done = session.do(
        lambda: session.cluster.add_controller(root, root_mode=mode), "copying the metadata log"
    )
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
    leader = session.do(lambda: session.cluster.elect_controller(given["to"]), "electing")
    session.conclude(
        f"Voter {leader.key.node_id} leads the metadata quorum, at {leader.root}.",
        {"leader": _voter(leader)},
    )


def _force(cluster: str, given: Mapping[str, Any]) -> None:
    voter = needed(given["from_"], "--from", "name the voter that goes on alone, by its id")
    options = pairs(given["storage_option"], "--storage-option")
    url, output = cluster_url(cluster), given["output"]
    with progress("asking voters"):
        found = check_forcing(url, voter, StorageOptions(options))
    count = len(found.newest.voters)
    standing = {
        "voter": voter,
        "answering": sorted(each.key.node_id for each in found.answering),
        "voters": [_voter(each) for each in found.newest.voters],
        "metadata_offset": found.table.log.end_offset,
    }
    words = (
        f"{len(found.answering)} of {count} voters answer from here; voter {voter} has the metadata"
        f" up to offset {found.table.log.end_offset}"
    )
    if given["dry_run"]:
        if output is Output.JSON:
            write_json({"dry_run": True, **standing})
        else:
            say(f"{words}. A dry run: nothing was changed.")
        return
    confirm(
        f"giving up what the other voters may have known alone ({words}; others may still reach"
        " more of them: stop all other processes first)",
        is_yes=given["yes"],
    )
    with progress("forcing the cluster on"):
        done = Cluster.force_controller(url, voter, storage_options=options)
    report = done.elections
    if output is Output.JSON:
        write_json(
            {
                "dry_run": False,
                **standing,
                "generation": done.generation,
                "fenced": report.fenced_count,
                "proven": [each._asdict() for each in report.proven],
                "unclean": [each._asdict() for each in report.unclean],
                "leaderless": [each._asdict() for each in report.leaderless],
                "unreached_brokers": list(report.unreached),
            }
        )
        return
    say(*_forced_lines(done))


def _forced_lines(done: ForcedGeneration) -> Iterator[str]:
    report = done.elections
    yield (
        f"Generation {done.generation} of the cluster goes on from voter"
        f" {done.voter.key.node_id}; {plural(report.fenced_count, 'replica')} fenced."
    )
    yield f"{plural(len(report.proven), 'partition')} led by proof, without loss."
    if report.unclean:
        names = ", ".join(map(str, report.unclean[:20]))
        yield (
            f"{plural(len(report.unclean), 'partition')} led uncleanly, and may lack records:"
            f" {names}."
        )
    if report.leaderless:
        names = ", ".join(map(str, report.leaderless[:20]))
        yield (
            f"{plural(len(report.leaderless), 'partition')} without a leader, since no replica"
            f" answered: {names}. Bring a broker back and force again."
        )
    if report.unreached:
        yield (
            f"Not reached: the roots of brokers {', '.join(map(str, report.unreached))}. Processes"
            " of the old generation may go on there: force again once they are back."
        )
    yield (
        "Run `controller` or `serve`, which bring the replicas in sync, and add other voters at"
        " empty roots: `metadata-quorum add-controller`."
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

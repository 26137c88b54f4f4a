"""`metadata-quorum`: shows who leads the metadata log and who votes, and changes both."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.actions import CHANGING, Action, verb
from kafka_on_spark.cli.options import RootMode
from kafka_on_spark.cli.output import write_answer, write_rows
from kafka_on_spark.cli.session import Session
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller.forced_generation import check_forcing
from kafka_on_spark.metadata.quorum.voter_set import Voter, majority_of
from kafka_on_spark.store.root_identity import ROOT_MODE
from kafka_on_spark.store.root_urls import cluster_url

NEXT: Final = (
    "force again once an unreached broker is back, where processes of the old generation may go on,"
    " or one of a leaderless partition; run `controller` or `serve`, which bring the replicas in"
    " sync; add other voters at empty roots: `metadata-quorum add-controller`"
)

Name = Annotated[
    str,
    typer.Argument(
        help="The new voter's root, for add-controller; a voter's id, for remove-controller."
    ),
]


def describe(
    session: Session,
    status: Annotated[bool, typer.Option(help="Who leads, in which epoch, and who votes.")] = False,
    replication: Annotated[
        bool, typer.Option(help="How far each voter is, and its state.")
    ] = False,
) -> None:
    """Show who leads and who votes, or how far each voter is."""
    if status == replication:
        raise InvalidRequestError("describe shows one thing: choose one of --status, --replication")
    found = session.cluster.describe_quorum()
    if status:
        answer = {
            "cluster_id": session.cluster.image.cluster_id,
            "leader": found.leader.node_id,
            "leader_epoch": found.epoch,
            "high_watermark": found.high_watermark,
            "max_follower_lag": found.lag_max,
            "voters": [each.voter.key.node_id for each in found.voters],
            "roots": [each.voter.root for each in found.voters],
            "away": [each.voter.key.node_id for each in found.voters if each.problem is not None],
        }
        write_answer(session.output, answer)
        return
    rows = (
        {
            **_voter(each.voter),
            "log_end_offset": each.log_end_offset,
            "lag": each.lag,
            "epoch": each.epoch,
            "status": each.state,
            "problem": each.problem,
        }
        for each in found.voters
    )
    columns = "node_id directory_id log_end_offset lag epoch status root problem"
    write_rows(session.output, columns, rows)


def add_controller(session: Session, name: Name, root_mode: RootMode = ROOT_MODE) -> None:
    """Add a voter at a root."""
    done = session.cluster.add_controller(name, root_mode=root_mode)
    session.conclude(
        {"added": _voter(done.voter), "voters": [_voter(each) for each in done.voters]},
        f"Added voter {done.voter.key.node_id} at {done.voter.root}.",
        _needed(done.voters),
    )


def remove_controller(session: Session, name: Name) -> None:
    """Remove a voter."""
    session.confirm(f"removing voter {name} from the metadata quorum")
    done = session.cluster.remove_controller(name)
    lines = [f"Removed voter {done.voter.key.node_id} at {done.voter.root}.", _needed(done.voters)]
    if not done.is_marked:
        lines.append(
            "Its root could not be reached, and does not say so: take it off all lists of metadata"
            " roots, and empty it before it is used again."
        )
    session.conclude(
        {
            "removed": _voter(done.voter),
            "voters": [_voter(each) for each in done.voters],
            "is_marked": done.is_marked,
        },
        *lines,
    )


def elect(
    session: Session,
    to: Annotated[
        str,
        typer.Option(metavar="VOTER", help="Who is to lead, an id; else the best and lowest."),
    ]
    | None = None,
) -> None:
    """Have a voter lead."""
    leader = session.cluster.elect_controller(to)
    session.conclude({"leader": _voter(leader)})


def force(
    session: Session,
    from_: Annotated[
        int,
        typer.Option(
            metavar="VOTER",
            help="Who goes on alone, an id; for force, where a majority is lost for ever.",
        ),
    ],
) -> None:
    """Go on from one voter, where a majority is lost for ever."""
    url = cluster_url(session.url)
    found = check_forcing(url, from_, session.options)
    standing = {
        "voter": from_,
        "answering": sorted(each.key.node_id for each in found.answering),
        "voters": [_voter(each) for each in found.newest.voters],
        "metadata_offset": found.table.log.end_offset,
    }
    if session.is_dry_run:
        write_answer(session.output, {"dry_run": True, **standing})
        return
    session.confirm(
        "giving up what the other voters may have known alone"
        f" ({len(found.answering)} of {len(found.newest.voters)} voters answer from here; voter"
        f" {from_} has the metadata up to offset {found.table.log.end_offset}; others may still"
        " reach more of them: stop all other processes first)"
    )
    done = Cluster.force_controller(url, from_, storage_options=session.storage_options)
    report = done.elections
    write_answer(
        session.output,
        {
            "dry_run": False,
            **standing,
            "generation": done.generation,
            "fenced": report.fenced_count,
            "proven": [each._asdict() for each in report.proven],
            "unclean": [each._asdict() for each in report.unclean],
            "leaderless": [each._asdict() for each in report.leaderless],
            "unreached_brokers": list(report.unreached),
            "next": NEXT,
        },
    )


def _needed(voters: Sequence[Voter]) -> str:
    """Return how many voters may be lost now."""
    count = len(voters)
    if count == 1:
        return "There is one voter: if its root is lost, the cluster is."
    words = f"There are {count} voters, of which {majority_of(count)} must answer"
    return f"{words}: an odd number is better." if count % 2 == 0 else f"{words}."


def _voter(voter: Voter) -> dict[str, Any]:
    return {
        "node_id": voter.key.node_id,
        "directory_id": voter.key.directory_id,
        "root": voter.root,
    }


metadata_quorum = verb(
    "Show who leads the metadata log and how far each of its voters is, or change them.",
    Action(describe),
    Action(add_controller, *CHANGING),
    Action(remove_controller, *CHANGING),
    Action(elect, *CHANGING),
    Action(force, *CHANGING, is_open=False),
    by_word=True,
)

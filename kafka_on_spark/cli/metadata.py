"""`metadata` and `metadata-quorum`: the metadata log, its records and its voters."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

import typer

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.cli.options import FAILED, mode_of
from kafka_on_spark.cli.output import fields, note, plural, text_of, time_text
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, verb
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller import expiry
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.metadata.quorum.description import VoterDescription
from kafka_on_spark.metadata.quorum.voter_table import Voter, VoterKey, majority_of
from kafka_on_spark.metadata.records import ControllerRecord, Record, Stamp, encode
from kafka_on_spark.store.root_urls import BETWEEN, cluster_url

RECORD_COLUMNS: Final = "record_type cause fields"
BATCH_COLUMNS: Final = f"metadata_offset batch_base_offset time {RECORD_COLUMNS}"
_NOT_FOR_PEOPLE: Final = frozenset(
    {"record_type", "cause", "time", "topic_id", "replica_uuids", "directories", "application_id"}
)
"""Other columns of the row say the same, or a name does; scripts get them all."""

FILTERS: Final = "topic partition record_type limit"


def log(session: Session, offset: int = 0, end_offset: int | None = None, **filters: Any) -> None:
    """The records of the log, with times and causes."""
    image = session.cluster.image
    end = image.offset if end_offset is None else min(end_offset, image.offset)
    batches = DeltaMetadataLog(session.cluster.root, session.options).batches_from(Offset(offset))
    rows = (
        {"metadata_offset": place, "batch_base_offset": batch.base_offset, **row}
        for batch in takewhile(lambda batch: batch.base_offset < end, batches)
        for place, row in enumerate(
            record_rows(batch.records, image, batch.stamp), batch.base_offset
        )
        if offset <= place < end
    )
    session.write_rows(_chosen(session, rows, **filters), BATCH_COLUMNS)


def image(session: Session, **filters: Any) -> None:
    """The cluster as it is now, as records."""
    rows = record_rows(snapshot_records(session.cluster.image), session.cluster.image)
    session.write_rows(_chosen(session, rows, **filters), RECORD_COLUMNS)


def _chosen(
    session: Session,
    rows: Iterable[dict[str, Any]],
    topic: str | None = None,
    partition: int | None = None,
    record_type: str | None = None,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows that a call asks for. A topic's record has its name or its id."""
    topic_ids = {session.cluster.image.topic_ids.get(topic or "")} - {None}

    def is_wanted(row: Mapping[str, Any]) -> bool:
        if topic is not None and row.get("topic") == topic and "topic_id" in row:
            # Also deleted topics: their first record has the name, the others only the id.
            topic_ids.add(row["topic_id"])
        return (
            (topic is None or row.get("topic_id") in topic_ids)
            and partition in (None, row.get("partition"))
            and record_type in (None, row["record_type"])
        )

    return islice(filter(is_wanted, rows), limit)


def record_rows(
    records: Sequence[Record], image: MetadataImage, stamp: Stamp | None = None
) -> list[dict[str, Any]]:
    """Return records as rows; the `image` names topics. Without the stamp of their commit they have
    no time."""
    columns = encode(records, stamp or Stamp(time_ms=0))
    rows = []
    for place in range(len(records)):
        row = {name: each[place] for name, each in columns.items() if each}
        row = {name: value for name, value in row.items() if value is not None}
        if stamp is None:
            del row["time"]
        else:
            row["time"] = time_text(stamp.time_ms)
        rows.append({**row, "fields": _fields(row, image)})
    return rows


def _fields(row: dict[str, Any], image: MetadataImage) -> str:
    said = []
    if row.get("topic_id") is not None and "topic" not in row:
        topic = image.topics.get(row["topic_id"])
        said = [f"topic_id={row['topic_id']}" if topic is None else f"topic={topic.name}"]
    is_controllers = row["record_type"] == ControllerRecord.__name__
    for name, value in row.items():
        is_stamp = name.startswith("controller_") and not is_controllers
        if name not in _NOT_FOR_PEOPLE and not is_stamp and value != []:
            said.append(f"{name}={text_of(value)}")
    return " ".join(said)


def reset_time(session: Session) -> None:
    """Have the metadata go by the clocks again that it is ahead of."""
    node = session.cluster._node
    decide = partial(expiry.reset_time, now_ms=node.clock.now_ms())
    if session.is_dry_run:
        session.dry_run.end_with(decide(session.cluster.image).records)
    session.conclude(asdict(node.metadata.submit(decide, timeout_ms=node.timeout_ms)))


metadata = verb(
    """Show the metadata log, or the image, which is its result.

    Or reset the time, once the clock is right that a process had years ahead: what was heard of
    later than now counts from now on. Records keep their timestamps.

    Options:
        --end-offset INTEGER  End before it.
        --topic NAME  Only records of this topic.
        --partition INTEGER  Only records of this partition.
        --record-type TYPE  Only this type, such as PartitionChangeRecord.
    """,
    Action(log, "as_of", more=FILTERS),
    Action(image, "as_of", more=FILTERS),
    Action(reset_time, "dry_run"),
)


def describe(session: Session, status: bool = False, replication: bool = False) -> None:
    """Show who leads and who votes, or how far each voter is."""
    best, leads = None, {}
    try:
        with session.opened():
            found = session.cluster.describe_quorum()
            cluster_id, voters = session.cluster.image.cluster_id, found.voters
            leads = fields(found, "leader=leader.node_id leader_epoch=epoch high_watermark")
            leads["max_follower_lag"] = found.lag_max
    except QuorumUnavailableError:
        roots = DeltaMetadataLog(cluster_url(session.url), session.options)
        cluster_id, (voters, best) = roots.identity.cluster_id, roots.describe_voters()
    if status:
        answer = {
            "cluster_id": cluster_id,
            **leads,
            "voters": [each.voter.key.node_id for each in voters],
            "roots": [each.voter.root for each in voters],
            "away": [each.voter.key.node_id for each in voters if each.epoch is None],
        }
        session.write_answer(answer)
    else:
        session.write_rows(
            _voter(each.voter)
            | fields(each, "log_end_offset lag epoch")
            | {"status": each.condition or each.state, "problem": each.problem}
            for each in voters
        )
    if best is not None:
        _say_how_to_go_on(voters, best)
        raise typer.Exit(FAILED)
    _say_how_to_replace(voters)


def _say_how_to_replace(voters: Sequence[VoterDescription]) -> None:
    lost = [each.voter for each in voters if each.condition and each.condition.is_for_ever]
    left = BETWEEN.join(each.voter.root for each in voters if each.voter not in lost)
    call = f"  kafka-on-spark metadata-quorum {{}} --cluster {shlex.quote(left)}"
    for node_id, root in ((each.key.node_id, each.root) for each in lost):
        note(
            f"Voter {node_id} is lost, unless its disk is away. Move away what is left at its root,"
            " and put an empty one in its place:"
        )
        note(call.format(f"remove-controller {node_id}"))
        note(call.format(f"add-controller {shlex.quote(root)}"))


def _say_how_to_go_on(voters: Sequence[VoterDescription], best: VoterKey) -> None:
    answering = [each.voter for each in voters if each.log_end_offset is not None]
    count = f"{len(answering)} of {plural(len(voters), 'voter')}"
    if len(answering) >= majority_of(len(voters)):
        note(
            f"No leader: {count} answer, and do not agree on one. Try again as a user who may write"
            " to them, once those that are full or read-only take writes."
        )
        return
    note(
        f"No majority: {count} answer, so nothing is decided or read. Bring the others back. Only"
        " if they are lost for ever, have the voter with the best log go on alone, and lose what"
        " only they knew:"
    )
    root = next(shlex.quote(each.root) for each in answering if each.key == best)
    note(f"  kafka-on-spark metadata-quorum force --from {best.node_id} --cluster {root}")


def add_controller(session: Session, name: str, root_mode: str = "700") -> None:
    """Add a voter at a root."""
    done = session.cluster.add_controller(name, root_mode=mode_of(root_mode))
    session.conclude(
        {"added": _voter(done.voter), "voters": [_voter(each) for each in done.voters]}
    )


def remove_controller(session: Session, name: str) -> None:
    """Remove a voter."""
    session.confirm(f"removing voter {name} from the metadata quorum")
    done = session.cluster.remove_controller(name)
    if not done.is_marked:
        note(
            "Its root is empty, damaged or away, and does not say so: if it is away, take it off"
            " all lists of metadata roots. Empty it before it is used again."
        )
    session.conclude(
        {
            "removed": _voter(done.voter),
            "voters": [_voter(each) for each in done.voters],
            "is_marked": done.is_marked,
        }
    )


def elect(session: Session, to: str | None = None) -> None:
    """Have a voter lead."""
    leader = session.cluster.elect_controller(to)
    session.conclude({"leader": _voter(leader)})


def force(session: Session, from_: int) -> None:
    """Go on from one voter, where a majority is lost for ever."""
    # In the function: no other action needs it.
    from kafka_on_spark.controller.forced_generation import check_forcing

    url = cluster_url(session.url)
    found = check_forcing(url, from_, session.options)
    standing = {
        "voter": from_,
        "answering": sorted(each.key.node_id for each in found.answering),
        "voters": [_voter(each) for each in found.newest.voters],
        "metadata_offset": found.table.log.end_offset,
    }
    if session.is_dry_run:
        session.write_answer({"dry_run": True, **standing})
        return
    session.confirm(
        "giving up what the other voters may have known alone"
        f" ({len(found.answering)} of {len(found.newest.voters)} voters answer from here; voter"
        f" {from_} has the metadata up to offset {found.table.log.end_offset}; others may still"
        " reach more of them: stop all other processes first)"
    )
    done = Cluster.force_controller(url, from_, storage_options=session.storage_options)
    report = done.elections
    session.write_answer(
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


def _voter(voter: Voter) -> dict[str, Any]:
    return fields(voter, "node_id=key.node_id directory_id=key.directory_id root")


metadata_quorum = verb(
    """Show who leads the metadata log and how far each of its voters is, or change them.

    Options:
        --status  Who leads, in which epoch, and who votes.
        --replication  How far each voter is, and its state.
        name  The new voter's root, for add-controller; a voter's id, for remove-controller.
        --to VOTER  Id of the next leader; without it, of the best logs the lowest id.
        --from INTEGER  Who goes on alone, an id; for force, where a majority is lost for ever.
    """,
    Action(describe, one_of=("status replication",), is_open=False),
    Action(add_controller, *CHANGING),
    Action(remove_controller, *CHANGING),
    Action(elect, "yes"),
    Action(force, *CHANGING, is_open=False),
    by_word=True,
)

"""`cluster` and `brokers`: a cluster with its brokers, from its creation on."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, micros_of
from kafka_on_spark.cli.options import mode_of, pairs
from kafka_on_spark.cli.output import note, plural, time_text, write_json
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, verb
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller.brokers import registered_broker
from kafka_on_spark.observe.descriptions import describe_brokers
from kafka_on_spark.observe.history import state_begins
from kafka_on_spark.store.new_roots import check_reachable
from kafka_on_spark.store.roots import normalize


def create(
    session: Session, broker: list[str], config: list[str] | None = None, root_mode: str = "700"
) -> None:
    """Create a cluster: its metadata root, or several with a voter on each, and its brokers."""
    roots, racks = _brokers_of(broker)
    with Cluster.create(
        session.url,
        roots,
        racks=racks or None,
        configs=pairs(config, "--config"),
        storage_options=session.storage_options,
        root_mode=mode_of(root_mode),
    ) as created:
        answer = _answer(created)
    session.show(
        answer,
        f"Created the cluster {answer['cluster_id']} at {answer['metadata_root']} with"
        f" {plural(len(roots), 'broker')}.",
    )


def _brokers_of(given: Sequence[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Return roots and racks by broker id, from texts like "1=/disks/a,north". The rack follows the
    last comma; a root that contains a comma needs a rack."""
    roots: dict[int, str] = {}
    racks: dict[int, str] = {}
    for each in given:
        match = re.fullmatch(r"\s*(\d+)\s*=([^,].*?)(?:,([^,]+))?(?<!,)", each)
        if match is None:
            raise InvalidRequestError(
                f"--broker can't be {each!r}: give ID=ROOT or ID=ROOT,RACK, as in 1=/disks/a,north"
            )
        broker_id = int(match[1])
        if broker_id in roots:
            raise InvalidRequestError(
                f"--broker gives broker {broker_id} twice: give each id once, with its root"
            )
        roots[broker_id] = match[2]
        if match[3] is not None:
            racks[broker_id] = match[3].strip()
    return roots, racks


def fork(session: Session, broker: list[str]) -> None:
    """Make a copy a cluster of its own: its metadata root, or several, and its brokers' roots."""
    roots, racks = _brokers_of(broker)
    start = partial(
        Cluster.fork, session.url, roots, racks=racks, storage_options=session.storage_options
    )
    report = start(is_dry_run=True)
    if not session.is_dry_run:
        for sentence in (*report.lost, *report.not_whole):
            note(sentence)
        losing = f", and losing records of {plural(len(report.lost), 'partition')}"
        session.confirm(f"giving these copies ids of their own{losing if report.lost else ''}")
        report = start(accepts_losses=bool(report.lost))
    session.conclude(asdict(report))


def describe(session: Session) -> None:
    """Show its id, its settings and its brokers."""
    answer = _answer(session.cluster)
    if session.is_json:
        write_json(answer)
        return
    brokers = answer.pop("brokers")
    session.write_answer(answer)
    session.write_rows(brokers)


def _answer(cluster: Cluster) -> dict[str, Any]:
    image = cluster.image
    return {
        "cluster_id": image.cluster_id,
        "metadata_root": cluster.root,
        "metadata_table": cluster.metadata_table,
        "configs": dict(sorted(image.configs.items())),
        "brokers": [
            {name: row[name] for name in ("broker", "state", "rack", "root")}
            for row in describe_brokers(image)
        ],
    }


cluster = verb(
    """Create a cluster on storage roots, describe one, or make a copy of one a cluster of its own.

    Each root is tested first, and a root that is in use is refused. A fork gives the copied roots
    new ids, and says first what is not whole in the copy. Source: kafka-storage format and
    kafka-cluster.

    Options:
        --broker ID=ROOT[,RACK]...  A broker of the new cluster; may be given more than once.
    """,
    Action(create, is_open=False),
    Action(fork, *CHANGING, is_open=False),
    Action(describe),
)


def list_(session: Session) -> None:
    """Show brokers, their roots and states; if not active, since when and why."""
    rows = _with_reasons(session, _rows(session, None))
    session.write_rows(rows, "broker state since rack root writes why")


def describe_(session: Session, broker: int | None = None) -> None:
    """Show also what each broker leads and holds."""
    columns = "broker state since rack leaders preferred replicas in_sync lost root writes why"
    session.write_rows(_with_reasons(session, _rows(session, broker)), columns)


def _with_reasons(session: Session, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add since when brokers are in their states, and why, to rows of those that are not active."""
    metadata, brokers = session.cluster._metadata, session.cluster.image.brokers
    others = {each.broker_id: each for each in brokers.values() if not each.is_eligible}
    begun = state_begins(others, metadata.pieces_newest_first())
    for row in rows:
        event, fenced_ms = begun.get(row["broker"]), brokers[row["broker"]].fenced_since_ms
        since_ms = fenced_ms if event is None else micros_of(event.time) // 1000
        row["since"] = None if since_ms is None else time_text(since_ms)
        row["why"] = event and event.why
    return rows


def _rows(session: Session, wanted: int | None) -> list[dict[str, Any]]:
    image = session.cluster.image
    if wanted is not None:
        registered_broker(image, BrokerId(wanted))
    return [row for row in describe_brokers(image) if wanted in (None, row["broker"])]


def register(
    session: Session, broker: int, root: str, rack: str | None = None, root_mode: str = "700"
) -> None:
    """Add a broker, or give a fenced one another disk."""
    mode = mode_of(root_mode)
    for known in _rows(session, None):
        if known["broker"] == broker and known["state"] == "fenced" and known["replicas"]:
            found = check_reachable(normalize(root), session.options)
            if found is None or found.directory_id != known["directory_id"]:
                session.confirm(
                    f"giving broker {broker} another disk, and giving up what its"
                    f" {plural(known['replicas'], 'replica')} had on {known['root']},"
                )
    session.cluster.register_broker(broker, root, rack=rack, root_mode=mode)
    [row] = _rows(session, broker)
    session.conclude({name: row[name] for name in ("broker", "root", "rack")})


def alter(session: Session, broker: int, rack: str) -> None:
    """Set a broker's rack; an empty one clears it."""
    session.cluster.alter_broker(broker, rack=rack)
    session.conclude({"broker": broker, "rack": rack})


def drain(session: Session, broker: int) -> None:
    """Move a broker's leaderships to others."""
    moved = [each._asdict() for each in session.cluster.drain_broker(broker)]
    [left] = [each["leaders"] for each in _rows(session, broker)]
    session.conclude({"broker": broker, "state": "draining", "moved": moved, "still_leads": left})


def resume(session: Session, broker: int) -> None:
    """Let a draining broker lead again."""
    session.cluster.resume_broker(broker)
    session.conclude({"broker": broker, "state": "active"})


def unregister(session: Session, broker: int) -> None:
    """Remove a broker that has no replicas."""
    session.cluster.unregister_broker(broker)
    session.conclude({"broker": broker, "state": "unregistered"})


brokers = verb(
    """List, describe, register, alter, drain, resume or unregister brokers.

    Options:
        --broker, --id INTEGER  The broker's id.
        --root URL  Its root: a folder or a URL.
        --rack TEXT  Its failure domain. Another disk has that of the one before, if none is given.
    """,
    Action(list_, "as_of"),
    Action(describe_, "as_of"),
    Action(register, *CHANGING),
    Action(alter, *CHANGING),
    Action(drain, *CHANGING),
    Action(resume, *CHANGING),
    Action(unregister, *CHANGING),
)

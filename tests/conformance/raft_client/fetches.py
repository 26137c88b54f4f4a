"""Requests and answers about the log and its snapshots."""

from dataclasses import replace

from kafka_on_spark.raft.log.lookups import (
    Validity,
    end_offset_for_epoch,
    validate_offset_and_epoch,
)
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch, RaftBatch
from kafka_on_spark.raft.log.snapshots import check_snapshot
from kafka_on_spark.raft.states.epoch_states import Follower, Leader
from kafka_on_spark.raft.states.timing import Timer
from tests.conformance.raft_client.client import RETRY_MS

SNAPSHOT_BYTES = 1_000


def refused_by_leader(client, epoch):
    """Return why a request to the leader of `epoch` is refused, or None."""
    if not client.is_running:
        return "BROKER_NOT_AVAILABLE"
    if epoch < client.epoch:
        return "FENCED_LEADER_EPOCH"
    if epoch > client.epoch:
        return "UNKNOWN_LEADER_EPOCH"
    return None if isinstance(client.state, Leader) else "NOT_LEADER_OR_FOLLOWER"


def handle_fetch(client, replica, *, epoch, at, max_wait):
    """Answer a follower or observer; None as `replica`: a reader."""
    if max_wait < 0 or min(at.offset, at.epoch, epoch) < 0:
        return client.named("INVALID_REQUEST")
    refusal = refused_by_leader(client, epoch)
    if refusal is not None:
        return client.named(refusal)
    if at.epoch > epoch:
        return client.named("INVALID_REQUEST")
    elsewhere = _elsewhere(client, at)
    if elsewhere is not None:
        return elsewhere
    if replica is not None:
        client.led(client.state.state.with_fetch(replica, at.offset, client.moment()))
    if at.offset == client.log.end_offset and max_wait > 0:
        client.pending_fetch = {"pending": True}
        return {"pending": True}
    return client.named("NONE", records=client.log.end_offset - at.offset)


def _elsewhere(client, at):
    """Return what sends a follower elsewhere than to the next batch, or None."""
    snapshot = newest_snapshot(client)
    if at.offset == 0 and snapshot is not None:
        return client.named("NONE", snapshot=list(snapshot))
    found = validate_offset_and_epoch(client.log, at.offset, at.epoch, snapshot)
    if found.validity is Validity.SNAPSHOT:
        return client.named("NONE", snapshot=list(found.at))
    if found.validity is Validity.DIVERGING:
        diverging = {"epoch": found.at.epoch, "end_offset": found.at.offset}
        return client.named("NONE", diverging=diverging)
    return None


def newest_snapshot(client):
    if not client.snapshots:
        return None
    return max(client.snapshots, key=lambda each: (each.epoch, each.offset))


def handle_fetch_answer(client, *, epoch, records, diverging, high_watermark, snapshot):
    """Take what a leader answers a fetch; one that was not asked for is ignored."""
    if not isinstance(client.state, Follower) or epoch != client.epoch:
        return
    if snapshot is not None and min(snapshot) < 0:
        client.backing_off = Timer(client.now_ms + RETRY_MS)
        return
    client.backing_off = None
    if snapshot is not None:
        client.snapshot_fetch = {"snapshot": list(snapshot), "position": 0}
    elif diverging is not None:
        mine = end_offset_for_epoch(client.log, diverging["epoch"])
        client.log = client.log.cut_to(min(mine.offset, diverging["end_offset"]))
    elif records:
        end = client.log.end_offset
        batch = RaftBatch(end, end + records, epoch, f"{epoch}-{end}")
        client.log = client.log.appended(batch)
    _heard(client)
    if high_watermark is not None and diverging is None:
        end = min(high_watermark, client.log.end_offset)
        state = client.state.with_high_watermark(max(end, client.state.high_watermark or 0))
        client.quorum = replace(client.quorum, state=state)


def _heard(client):
    state = replace(client.state, has_fetched=True, timer=client.moment().fetch_timer())
    client.quorum = replace(client.quorum, state=state)


def handle_fetch_snapshot(client, *, snapshot, position, epoch, topic):
    """Answer who takes a snapshot of the leader's."""
    if topic is not None:
        return client.named("UNKNOWN_TOPIC_OR_PARTITION")
    refusal = refused_by_leader(client, epoch)
    if refusal is not None:
        return client.named(refusal)
    at = OffsetAndEpoch(*snapshot)
    if at not in client.snapshots:
        return client.named("SNAPSHOT_NOT_FOUND")
    if not 0 <= position < SNAPSHOT_BYTES:
        return client.named("POSITION_OUT_OF_RANGE")
    return client.named("NONE")


def handle_snapshot_answer(client, *, part, error, epoch, leader):
    """Take a part of a snapshot, or all that was missing."""
    if epoch is not None:
        client.discover(epoch, leader)
    if client.snapshot_fetch is None or not isinstance(client.state, Follower):
        return
    if error not in (None, "NONE"):
        # It fetches again, and is told of a snapshot that is there.
        client.snapshot_fetch = None
        return
    _heard(client)
    if part == "half":
        client.snapshot_fetch = client.snapshot_fetch | {"position": "half"}
        return
    at = OffsetAndEpoch(*client.snapshot_fetch["snapshot"])
    client.snapshot_fetch = None
    client.log = client.log.starting_at(at, None)
    client.snapshots[at] = SNAPSHOT_BYTES
    state = replace(client.state, high_watermark=at.offset)
    client.quorum = replace(client.quorum, state=state)


def create_snapshot(client, at):
    """Make a snapshot of what is committed."""
    known = client.state.high_watermark
    if check_snapshot(client.log, known if known is not None else 0, at):
        client.snapshots[at] = SNAPSHOT_BYTES

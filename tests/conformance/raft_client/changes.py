"""Requests that change the set of voters (KIP-853). Source: AddVoterHandler and its like."""

from kafka_on_spark.errors import DuplicateVoterError, VoterNotFoundError
from kafka_on_spark.raft.voter_set import Voter, VoterSet
from tests.conformance.raft_client.client import CLUSTER_ID
from tests.conformance.raft_client.fetches import refused_by_leader

HOUR_MS = 3_600_000


class PendingChange:
    """A change that is not answered as yet. `asks`: whose versions it waits for."""

    def __init__(self, asks=None, voter=None):
        self.asks, self.voter = asks, voter
        self.end_offset = None
        self.result = None

    def end(self, error):
        if self.result is None:
            self.result, self.asks = error, None

    def look(self, client):
        """End, once the record is committed by the new set."""
        known = client.state.state.high_watermark
        if self.end_offset is not None and known is not None and known >= self.end_offset:
            self.end("NONE")

    def append(self, client, voters):
        self.asks = None
        client.append(1, voters=voters)
        self.end_offset = client.log.end_offset
        self.look(client)


def refused_change(client, key, cluster_id, kraft_version, *, epoch=None, has_listeners=True):
    """Return why no change of voters can be made, or None."""
    if cluster_id not in (None, CLUSTER_ID):
        return "INCONSISTENT_CLUSTER_ID"
    refusal = refused_by_leader(client, client.epoch if epoch is None else epoch)
    if refusal is not None:
        return refusal
    if key.directory_id is None or not has_listeners:
        return "INVALID_REQUEST"
    led, batch = client.state.state, client.log.voters_batch
    is_pending = client.pending_change is not None and client.pending_change.result is None
    if is_pending or led.high_watermark is None:
        return "REQUEST_TIMED_OUT"
    if kraft_version < 1:
        return "UNSUPPORTED_VERSION"
    is_settled = batch is None or batch.end_offset <= led.high_watermark
    return None if is_settled else "REQUEST_TIMED_OUT"


def add_voter(client, key, *, cluster_id, kraft_version, has_listeners):
    named = {"has_listeners": has_listeners}
    refusal = refused_change(client, key, cluster_id, kraft_version, **named)
    if refusal is not None:
        return {"error": refusal}
    try:
        client.voters.with_voter(Voter(key))
    except DuplicateVoterError:
        return {"error": "DUPLICATE_VOTER"}
    client.pending_change = PendingChange(asks=key.node_id, voter=key)
    return {"pending": True}


def handle_versions(client, node_id, *, error, supported):
    """Take the answer of the node that is to be a voter."""
    change = client.pending_change
    if change is None or change.asks != node_id:
        return
    if error != "NONE":
        change.end("REQUEST_TIMED_OUT")
    elif supported is not None and not supported[0] <= 1 <= supported[1]:
        change.end("INVALID_REQUEST")
    elif not _is_caught_up(client, change.voter):
        change.end("REQUEST_TIMED_OUT")
    else:
        change.append(client, client.voters.with_voter(Voter(change.voter)))


def _is_caught_up(client, key):
    progress = client.state.state.progress_of(key)
    if progress.last_caught_up_ms is None or progress.last_fetch_ms is None:
        return False
    return client.now_ms - progress.last_fetch_ms < HOUR_MS


def remove_voter(client, key, *, cluster_id, kraft_version):
    refusal = refused_change(client, key, cluster_id, kraft_version)
    if refusal is not None:
        return {"error": refusal}
    try:
        changed = client.voters.without_voter(key)
    except VoterNotFoundError:
        return {"error": "VOTER_NOT_FOUND"}
    client.pending_change = PendingChange()
    client.pending_change.append(client, changed)
    return {"pending": True}


def update_voter(client, key, *, cluster_id, kraft_version, epoch):
    refusal = refused_change(client, key, cluster_id, kraft_version, epoch=epoch)
    if refusal is not None:
        return {"error": refusal}
    if not client.voters.is_voter(key):
        return {"error": "VOTER_NOT_FOUND"}
    client.append(1, voters=VoterSet(client.voters.voters))
    return {"error": "NONE"}


def result_of(client):
    """Return how a change ended; one that is waited for any longer has timed out."""
    change = client.pending_change
    assert change is not None
    change.end("REQUEST_TIMED_OUT")
    return {"error": change.result}

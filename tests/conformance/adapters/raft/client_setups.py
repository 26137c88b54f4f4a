"""Whole clients in the states that vectors start from."""

from dataclasses import replace

from kafka_on_spark.raft.log.raft_log import BatchKind, OffsetAndEpoch, RaftBatch, RaftLog
from kafka_on_spark.raft.states.election_state import ElectionState
from kafka_on_spark.raft.states.epoch_states import Follower
from tests.conformance.adapters.raft.states import started
from tests.conformance.adapters.raft.words import Times, key_of, voters_of
from tests.conformance.raft_client import fetches
from tests.conformance.raft_client.client import Client, log_from
from tests.conformance.runner import CutOffError


def client_of(local, voters, *, persisted=None, state=None, epoch=None, asks_first=False, **rest):
    """Return a client in the state that a vector starts from."""
    key, known = key_of(local), voters_of(voters)
    log = log_from(rest.get("log") or ())
    given = dict(persisted or {})
    if "error" in given:
        raise CutOffError("votes-are-with-the-log")
    if state is None:
        election = ElectionState(
            given.get("epoch", epoch or 0), given.get("leader"), key_of(given.get("voted_for"))
        )
        return with_snapshot(
            Client(key, known, election=election, log=log, asks_first=asks_first), rest
        )
    epoch = max(1, log.end.epoch + 1) if epoch is None else epoch
    led = sum(count for count, each in rest.get("log") or () if each == epoch)
    if state in ("LEADER", "RESIGNED") and led:  # what it wrote in its epoch, its no-op first
        rest["log_end_offset"] = log.end_offset
        log = log.cut_to(log.end_offset - led)
    before = ElectionState(max(0, min(epoch - 1, log.end.epoch)))
    client = Client(key, known, election=before, log=log, asks_first=asks_first)
    if state in ("LEADER", "RESIGNED"):
        lead(client, epoch)
        more = rest.get("log_end_offset", 0) - client.log.end_offset
        if more > 0:
            client.append(more)
        establish(client, rest.get("high_watermark"))
        with_snapshot(client, rest)
        if state == "RESIGNED":
            client.resign()
        return client
    named = {"voted_for": rest.get("voted_for"), "leader": rest.get("leader")}
    if "log" not in rest and rest.get("log_end_offset"):
        client.log = log_from([(rest["log_end_offset"], epoch)])
    client.quorum = started(local, voters, Times(), state=state, epoch=epoch, **named)
    client.quorum = replace(client.quorum, state=with_timer(client))
    return with_snapshot(client, rest)


def with_timer(client):
    """Return the client's state with a timer of its own times."""
    moment, state = client.moment(), client.state
    is_follower = isinstance(state, Follower)
    return replace(state, timer=moment.fetch_timer() if is_follower else moment.election_timer())


def lead(client, epoch):
    """Have a client elected in an epoch."""
    moment = client.moment()
    quorum = client.quorum
    if epoch - 1 > quorum.epoch:
        quorum = quorum.become_unattached(epoch - 1, None, moment)
    quorum = quorum.become_prospective(moment).become_candidate(moment)
    for each in client.remote_voters():
        quorum = quorum.with_answer(each, is_granted=True)
    start = client.log.end_offset
    no_op = RaftBatch(start, start + 1, epoch, f"{epoch}-{start}", BatchKind.NO_OP)
    client.log = client.log.appended(no_op)
    client.become(quorum.become_leader(start, moment))
    client.led(client.state.state.with_local_end(client.log.end_offset))


def establish(client, high_watermark):
    """Have the other voters fetch up to a high watermark."""
    if not isinstance(high_watermark, int) and high_watermark not in ("established", "log end"):
        return
    end = high_watermark if isinstance(high_watermark, int) else client.log.end_offset
    led = client.state.state
    for each in client.remote_voters():
        led = led.with_fetch(key_of(each), end, client.moment())
    client.led(led)


def with_snapshot(client, given):
    """Give the client a snapshot, and its log the start that a vector says."""
    at = given.get("snapshot")
    if at is None:
        return client
    client.snapshots[OffsetAndEpoch(*at)] = fetches.SNAPSHOT_BYTES
    start = given.get("log_start_offset", 0)
    if start:
        kept = client.log.from_offset(start)
        client.log = RaftLog(kept, OffsetAndEpoch(*at))
    return client

"""Requests and answers about votes and leaderships."""

from dataclasses import replace

from kafka_on_spark.raft.log.lookups import is_log_up_to_date
from kafka_on_spark.raft.states.epoch_states import Candidate, Follower, Prospective, Resigned
from kafka_on_spark.raft.states.timing import Timer, successor_backoff_ms
from tests.conformance.raft_client.client import BACKOFF_MAX_MS, CLUSTER_ID


def handle_vote(client, *, epoch, candidate, last, voter, cluster_id, is_pre_vote):
    """Answer a candidate; the checks are in Kafka's order."""
    if cluster_id not in (None, CLUSTER_ID):
        return {"error": "INCONSISTENT_CLUSTER_ID"}
    newest = epoch if is_pre_vote else epoch - 1
    if last.offset < 0 or not 0 <= last.epoch <= max(newest, 0):
        return client.named("INVALID_REQUEST", granted=False)
    refusal = refused(client, epoch)
    if refusal is not None:
        return client.named(refusal, granted=False)
    client.discover(epoch, None)
    if voter is not None and voter != client.key:
        return client.named("INVALID_VOTER_KEY", granted=False)
    is_up_to_date = is_log_up_to_date(last, client.log.end)
    granted = client.quorum.can_grant_vote(
        candidate, is_log_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote
    )
    if granted and not is_pre_vote and client.quorum.election.voted_key is None:
        client.become(client.quorum.with_vote_for(epoch, candidate, client.moment()))
    return client.named("NONE", granted=granted)


def refused(client, epoch):
    """Return why a request between voters is refused, or None."""
    if not client.is_running:
        return "BROKER_NOT_AVAILABLE"
    return "FENCED_LEADER_EPOCH" if epoch < client.epoch else None


def handle_vote_answer(client, voter, *, granted, epoch, leader, error, is_pre_vote):
    """Take a voter's answer; one that was not asked for in this state is ignored."""
    if error == "UNSUPPORTED_VERSION" and isinstance(client.state, Prospective):
        # A voter of an older version knows no pre-votes.
        client.stand()
        return
    client.discover(epoch, leader)
    asked = Prospective if is_pre_vote else Candidate
    if epoch != client.epoch or not isinstance(client.state, asked):
        return
    client.quorum = client.quorum.with_answer(voter, is_granted=granted)
    client.lead_if_elected()
    client.back_off_if_rejected()


def handle_begin(client, epoch, leader):
    """Hear of a leader."""
    refusal = refused(client, epoch)
    if refusal is None:
        client.discover(epoch, leader, is_its_own_word=True)
    return client.named(refusal or "NONE")


def handle_end(client, epoch, leader, successors):
    """Hear that a leader resigns: who is first on its list stands at once."""
    refusal = refused(client, epoch)
    if refusal is not None:
        return client.named(refusal)
    client.discover(epoch, leader)
    answer = client.named("NONE")
    state = client.state
    if isinstance(state, Follower) and state.leader_id == leader and client.quorum.is_voter:
        mine = client.key.node_id
        position = successors.index(mine) if mine in successors else -1
        wait_ms = successor_backoff_ms(position, len(successors), BACKOFF_MAX_MS)
        override_timer(client, wait_ms)
    return answer


def override_timer(client, wait_ms):
    timer = Timer(client.now_ms + wait_ms)
    client.quorum = replace(client.quorum, state=replace(client.state, timer=timer))


def handle_end_answer(client, voter):
    if isinstance(client.state, Resigned):
        left = client.state.unacknowledged - {voter}
        client.quorum = replace(client.quorum, state=replace(client.state, unacknowledged=left))

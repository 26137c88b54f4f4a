"""One node: its quorum state, its log, the time, and what it would send now."""

from dataclasses import replace

from kafka_on_spark.raft.log.raft_log import BatchKind, OffsetAndEpoch, RaftBatch, RaftLog
from kafka_on_spark.raft.states.epoch_states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
)
from kafka_on_spark.raft.states.quorum_state import initial_state
from kafka_on_spark.raft.states.timing import Moment, Timer, retry_backoff_ms

ELECTION_MS = 10_000
FETCH_MS = 50_000
REQUEST_MS = 5_000
RETRY_MS = 50
BACKOFF_MAX_MS = 100
CHECK_QUORUM_MS = FETCH_MS * 3 // 2
CLUSTER_ID = "ours"


class Client:
    """A node of Kafka's quorum. `asks_first`: it asks for pre-votes (KIP-996)."""

    def __init__(self, key, voters, *, election, log, asks_first=False):
        self.key, self.asks_first = key, asks_first
        self.now_ms = 0
        self.log = log
        self.snapshots = {}
        self.high_watermark = None
        self.snapshot_fetch = None
        self.backing_off = None
        self.shut_down_in = None
        self.pending_fetch = None
        self.pending_change = None
        self.resign_requested = False
        self.quorum = initial_state(key, voters, election, log.end, self.moment())

    def moment(self):
        return Moment(self.now_ms, ELECTION_MS, FETCH_MS)

    @property
    def state(self):
        return self.quorum.state

    @property
    def epoch(self):
        return self.quorum.epoch

    @property
    def leader_id(self):
        return self.quorum.election.leader_id

    @property
    def voters(self):
        return self.quorum.voters

    @property
    def is_only_voter(self):
        return self.quorum.is_voter and len(self.voters.keys) == 1

    def named(self, error, **fields):
        """Return an answer that names the epoch and the leader, as all of Kafka's do."""
        return {"error": error, "epoch": self.epoch, "leader": self.leader_id, **fields}

    # Transitions.

    def become(self, quorum):
        """Go into another state; what waited for the old one is over."""
        had_led = isinstance(self.state, Leader)
        if self.state.high_watermark is not None:
            self.high_watermark = self.state.high_watermark
        self.quorum, self.backing_off, self.snapshot_fetch = quorum, None, None
        if had_led and not isinstance(quorum.state, Leader):
            if self.pending_fetch is not None and not isinstance(quorum.state, Resigned):
                self.pending_fetch = self.named("NOT_LEADER_OR_FOLLOWER")
            if self.pending_change is not None:
                self.pending_change.end("NOT_LEADER_OR_FOLLOWER")

    def discover(self, epoch, leader_id, *, is_its_own_word=False):
        """Follow what another node says of an epoch and its leader; a leader that says so itself
        names its address, too."""
        if leader_id is not None and leader_id == (self.key and self.key.node_id):
            leader_id = None
        known = leader_id is not None and (
            is_its_own_word or self.voters.voter_of(leader_id) is not None
        )
        if epoch > self.epoch and not known:
            self.become(self.quorum.become_unattached(epoch, leader_id, self.moment()))
        elif epoch > self.epoch or (epoch == self.epoch and known and self.leader_id is None):
            self.become(self.quorum.become_follower(epoch, leader_id, self.moment()))

    def stand(self):
        """Hold an election: ask first, or as Kafka did before it asked."""
        quorum = self.quorum
        if not isinstance(self.state, Prospective):
            quorum = quorum.become_prospective(self.moment())
            if self.asks_first and not self.is_only_voter:
                self.become(quorum)
                return
        self.become(quorum.become_candidate(self.moment()))
        self.lead_if_elected()

    def lead_if_elected(self):
        """Lead, if a majority has voted so: the epoch begins with a no-op."""
        state = self.state
        if isinstance(state, Prospective) and state.tally.is_granted:
            self.become(self.quorum.become_candidate(self.moment()))
            self.lead_if_elected()
        elif isinstance(state, Candidate) and state.tally.is_granted:
            start = self.log.end_offset
            self.become(self.quorum.become_leader(start, self.moment()))
            self.append(1, kind=BatchKind.NO_OP)

    def append(self, count, *, kind=BatchKind.DECISION, voters=None):
        """Append to the leader's own log."""
        end = self.log.end_offset
        write_id = f"{self.epoch}-{end}"
        batch = RaftBatch(end, end + count, self.epoch, write_id, kind, voters)
        self.log = self.log.appended(batch)
        if voters is not None:
            self.quorum = replace(self.quorum, voters=voters)
        self.led(self.state.state.with_local_end(self.log.end_offset, voters))
        if self.pending_fetch is not None:
            self.pending_fetch = {"error": "NONE", "records": count}

    def led(self, leader_state):
        """Know more of the followers; a change of voters may be committed by that."""
        self.quorum = replace(self.quorum, state=Leader(state=leader_state))
        if self.pending_change is not None:
            self.pending_change.look(self)

    # Time.

    def sleep(self, ms):
        self.now_ms += ms
        self.poll()

    def poll(self):
        """Do what is due: at most one transition."""
        self.end_shutdown()
        state = self.state
        if isinstance(state, Leader):
            self._poll_leader(state.state)
        elif not self.quorum.is_voter:
            self._poll_observer(state)
        elif self.is_only_voter:
            self.stand()
        elif isinstance(state, Candidate):
            self._poll_candidate(state)
        elif isinstance(state, Prospective):
            self._poll_prospective(state)
        elif state.timer.is_expired(self.now_ms):
            self.stand()

    def _poll_observer(self, state):
        if isinstance(state, Resigned) and state.timer.is_expired(self.now_ms):
            self.become(self.quorum.become_unattached(self.epoch + 1, None, self.moment()))

    def _poll_leader(self, led):
        left_ms = led.check_quorum_remaining_ms(self.now_ms)
        if self.resign_requested or left_ms == 0 or self._is_removed(led):
            self.resign()

    def _is_removed(self, led):
        batch = self.log.voters_batch
        is_committed = batch is not None and batch.end_offset <= (led.high_watermark or 0)
        return not self.quorum.is_voter and is_committed

    def resign(self):
        self.resign_requested = False
        successors = self.state.state.preferred_successors
        self.become(self.quorum.become_resigned(successors, self.moment()))

    def _poll_candidate(self, state):
        if self.backing_off is not None:
            if self.backing_off.is_expired(self.now_ms):
                self.stand()
        elif state.timer.is_expired(self.now_ms) and not self.asks_first:
            self._back_off(state)
        elif self.asks_first and (state.timer.is_expired(self.now_ms) or state.tally.is_rejected):
            self.stand()

    def _back_off(self, state):
        # The longest that can be drawn.
        wait_ms = retry_backoff_ms(state.retries, 0.999, BACKOFF_MAX_MS)
        self.backing_off = Timer(self.now_ms + wait_ms)

    def back_off_if_rejected(self):
        state = self.state
        if isinstance(state, Candidate) and state.tally.is_rejected and not self.asks_first:
            self._back_off(state)
        elif isinstance(state, Candidate | Prospective) and state.tally.is_rejected:
            self.poll()

    def _poll_prospective(self, state):
        if not state.tally.is_rejected and not state.timer.is_expired(self.now_ms):
            return
        leader = state.leader_id
        if leader is not None and self.voters.voter_of(leader) is not None:
            self.become(self.quorum.become_follower(self.epoch, leader, self.moment()))
        else:
            self.become(self.quorum.become_unattached(self.epoch, leader, self.moment()))

    # Shutting down.

    def shut_down(self):
        self.shut_down_in = self.epoch
        if isinstance(self.state, Leader):
            self.resign()
        self.end_shutdown()

    def end_shutdown(self):
        """Stop, once another leads or nobody else could."""
        if self.shut_down_in is None:
            return
        alone = self.key is None or not [e for e in self.voters.keys if e != self.key]
        if alone or self.epoch > self.shut_down_in or self.quorum.has_remote_leader:
            self.shut_down_in = -1

    @property
    def is_running(self):
        return self.shut_down_in != -1

    # What it would send now.

    def requests(self):
        """Return the requests that a node in this state sends, by API."""
        state = self.state
        match state:
            case Leader():
                found = {"BeginQuorumEpoch": {"to": sorted(state.state.unacknowledged)}}
                if self.pending_change is not None and self.pending_change.asks is not None:
                    found["ApiVersions"] = {"to": [self.pending_change.asks]}
                return found
            case Resigned():
                successors = list(state.preferred_successors)
                to = sorted(state.unacknowledged)
                return {"EndQuorumEpoch": {"to": to, "preferred_successors": successors}}
            case Candidate() if self.backing_off is not None:
                return {}
            case Candidate() | Prospective():
                is_asking = isinstance(state, Prospective)
                asked = sorted(state.tally.unrecorded)
                return {"Vote": {"to": asked, "pre_vote": is_asking, **self._log_end()}}
            case Follower():
                return self._fetches([state.leader_id])
        return self._fetches(self.remote_voters())

    def _log_end(self):
        return {"last_epoch": self.log.end.epoch, "last_offset": self.log.end.offset}

    def _fetches(self, to):
        if self.snapshot_fetch is not None:
            return {"FetchSnapshot": {"to": to, **self.snapshot_fetch}}
        if self.backing_off is not None and not self.backing_off.is_expired(self.now_ms):
            return {}
        end = self.log.end
        return {"Fetch": {"to": to, "offset": end.offset, "last_epoch": end.epoch}}

    def remote_voters(self):
        return [each.node_id for each in self.voters.keys if each != self.key]


def log_from(batches, snapshot=None):
    log = RaftLog((), OffsetAndEpoch(*snapshot)) if snapshot else RaftLog()
    for count, epoch in batches:
        end = log.end_offset
        log = log.appended(RaftBatch(end, end + count, epoch, f"{epoch}-{end}"))
    return log

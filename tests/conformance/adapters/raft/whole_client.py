"""What the kinds of whole clients have in common: words, time, requests and answers."""

import re

from kafka_on_spark.raft.log.lookups import end_offset_for_epoch
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.states.epoch_states import Leader
from tests.conformance.adapters.raft.states import told
from tests.conformance.adapters.raft.words import Times, key_of
from tests.conformance.raft_client import fetches, votes
from tests.conformance.raft_client.client import (
    BACKOFF_MAX_MS,
    CHECK_QUORUM_MS,
    CLUSTER_ID,
    ELECTION_MS,
    FETCH_MS,
    REQUEST_MS,
    RETRY_MS,
    Client,
)
from tests.conformance.runner import (
    Adapter,
    Answer,
    CutOffError,
    IllegalArgumentError,
    MismatchError,
)

NOT_LEADER = frozenset({"NOT_LEADER", "NOT_LEADER_EXCEPTION", "NOT_LEADER_OR_FOLLOWER"})


class WholeClient(Adapter):
    """What all kinds of whole clients have."""

    SETS = frozenset({"to", "voters"})
    client: Client

    # Words.

    def begin(self, client):
        """Begin with a client, in the epoch that is the vector's "current" one."""
        self.client, self._first_epoch = client, client.epoch

    def _epoch(self, given):
        return self.client.epoch if given is None else self._number(given)

    def _offset(self, given):
        return self.client.log.end_offset if given is None else self._number(given)

    def _number(self, given):
        """Return a number: a word and what is added to it, or a number already."""
        if isinstance(given, int):
            return given
        found = re.fullmatch(r"(.*?)\s*(?:([+-])\s*(\d+))?", given)
        by = int(found[3] or 0)
        return self._of_word(found[1]) + (-by if found[2] == "-" else by)

    def _of_word(self, word):
        ended = re.fullmatch(r"end of epoch (\d+)", word)
        if ended is not None:
            return end_offset_for_epoch(self.client.log, int(ended[1])).offset
        words = {
            "current": self._first_epoch,
            "log end": self.client.log.end_offset,
            "HW": self.client.state.high_watermark,
        }
        if words.get(word) is None:
            raise ValueError(word)
        return words[word]

    def resolve(self, expectation):
        if isinstance(expectation, str) and re.fullmatch(r"[+-]\d+", expectation):
            return self._first_epoch + int(expectation)
        return expectation

    def _ms(self, given):
        if isinstance(given, int):
            return given
        if given == "rest of fetch timeout":
            return self.client.state.timer.remaining_ms(self.client.now_ms)
        if given == "shutdown timeout":
            raise CutOffError("nothing-is-handed-over")
        words = {
            "C": CHECK_QUORUM_MS,
            "retry backoff": RETRY_MS,
            "max backoff": BACKOFF_MAX_MS,
            "election timeout": ELECTION_MS,
            "fetch timeout": FETCH_MS,
            "begin quorum timeout": FETCH_MS // 2,
            "request timeout": REQUEST_MS,
        }
        found = re.fullmatch(r"(?:(\d+) \* )?([A-Za-z ]+?)(?:/(\d+))?(?: ([+-]) (\d+))?", given)
        if found is None or found[2] not in words:
            raise ValueError(given)
        ms = int(found[1] or 1) * words[found[2]] // int(found[3] or 1)
        return ms + int(f"{found[4]}{found[5]}") if found[4] else ms

    def _last_epoch(self, offset, given):
        if given is not None:
            return self._epoch(given)
        batch = self.client.log.batch_before(offset)
        return self.client.log.start.epoch if batch is None else batch.epoch

    # Time.

    def op_sleep(self, ms):
        self.client.sleep(self._ms(ms))

    def op_sleep_election_timeout(self):
        self.client.sleep(ELECTION_MS)

    def op_sleep_fetch_timeout(self):
        self.client.sleep(FETCH_MS)

    def op_sleep_request_timeout(self):
        self.client.sleep(REQUEST_MS)

    def op_poll(self):
        self.client.poll()
        return {"running": self.client.is_running}

    def op_poll_until_leader(self):
        for _ in range(4):
            self.client.poll()
        if not isinstance(self.client.state, Leader):
            raise MismatchError("it does not lead")

    # What it sends.

    def op_expect_request(
        self,
        api,
        epoch=None,
        to=None,
        last_epoch=None,
        last_offset=None,
        offset=None,
        preferred_successors=None,
        pre_vote=None,
        snapshot=None,
        position=None,
    ):
        if isinstance(self.client.state, Leader):
            self.client.poll()
        found = self.client.requests()
        if api not in found:
            raise MismatchError(f"it would send {', '.join(found) or 'nothing'}, and no {api}")
        return {"epoch": self.client.epoch, **found[api]}

    def op_expect_no_request(self):
        found = self.client.requests()
        return [api for api, about in found.items() if about["to"]]

    # Votes.

    def op_vote_request(
        self,
        candidate_epoch=None,
        candidate=None,
        last_epoch=0,
        last_offset=0,
        voter=None,
        cluster_id=CLUSTER_ID,
    ):
        return self._ask(
            candidate_epoch,
            candidate,
            last_epoch,
            last_offset,
            voter,
            cluster_id,
            is_pre_vote=False,
        )

    def op_prevote_request(self, epoch, candidate, last_epoch=0, last_offset=0, voter=None):
        return self._ask(
            epoch, candidate, last_epoch, last_offset, voter, CLUSTER_ID, is_pre_vote=True
        )

    def _ask(self, epoch, candidate, last_epoch, last_offset, voter, cluster_id, *, is_pre_vote):
        last = OffsetAndEpoch(self._offset(last_offset), self._epoch(last_epoch))
        others = self.client.remote_voters()
        return votes.handle_vote(
            self.client,
            epoch=self._epoch(epoch),
            candidate=key_of(others[0] if candidate is None else candidate),
            last=last,
            voter=key_of(voter),
            cluster_id=cluster_id,
            is_pre_vote=is_pre_vote,
        )

    def op_vote_response(
        self,
        from_,
        granted=False,
        epoch=None,
        leader=None,
        error="NONE",
        pre_vote=False,
        late=False,
    ):
        if late:
            return  # its request has timed out, and was sent again
        votes.handle_vote_answer(
            self.client,
            from_,
            granted=granted,
            epoch=self._epoch(epoch),
            leader=leader,
            error=error,
            is_pre_vote=pre_vote,
        )

    def op_begin_quorum_request(self, epoch, leader):
        return votes.handle_begin(self.client, self._epoch(epoch), leader)

    def op_end_quorum_request(self, epoch, leader, preferred_successors):
        return votes.handle_end(self.client, self._epoch(epoch), leader, preferred_successors)

    def op_resign(self, epoch=None):
        asked, client = self._epoch(epoch), self.client
        is_leader = isinstance(client.state, Leader)
        if asked > client.epoch or (asked == client.epoch and not is_leader):
            raise IllegalArgumentError
        client.resign_requested = asked == client.epoch
        client.poll()

    def op_shutdown(self):
        self.client.shut_down()
        return {"running": self.client.is_running}

    # The log.

    def op_append(self, epoch=None, records=1):
        asked = self._epoch(epoch)
        if not isinstance(self.client.state, Leader) or asked < self.client.epoch:
            return Answer({"error": NOT_LEADER})
        if asked > self.client.epoch:
            raise IllegalArgumentError
        self.client.append(records)
        return {"error": "NONE"}

    def op_fetch_request(
        self, replica, observer=False, epoch=None, offset=None, last_epoch=None, max_wait=0
    ):
        at = self._offset(offset)
        snapshot = fetches.newest_snapshot(self.client)
        begins_log = snapshot is None or self.client.log.start == snapshot
        if at and not begins_log and self._last_epoch(at, last_epoch) < snapshot.epoch:
            raise CutOffError("snapshots-begin-logs")
        return fetches.handle_fetch(
            self.client,
            key_of(replica) if replica >= 0 else None,
            epoch=self._epoch(epoch),
            at=OffsetAndEpoch(at, self._last_epoch(at, last_epoch)),
            max_wait=max_wait,
        )

    def op_pending_fetch(self):
        return self.client.pending_fetch

    def op_fetch_response(
        self,
        from_=None,
        epoch=None,
        records=0,
        diverging=None,
        high_watermark=None,
        snapshot=None,
    ):
        fetches.handle_fetch_answer(
            self.client,
            epoch=self._epoch(epoch),
            records=records,
            diverging=diverging,
            high_watermark=high_watermark,
            snapshot=snapshot,
        )

    def op_state(self):
        client = self.client
        found = told(client.quorum, Times()) | {
            "log_end_offset": client.log.end_offset,
            "log_start_offset": client.log.start.offset,
            "last_epoch": client.log.end.epoch,
            "voters": [each.node_id for each in client.voters.keys],
            "observer": not client.quorum.is_voter,
        }
        if isinstance(client.state, Leader):
            for each, progress in client.state.state.progress.items():
                found[f"replica_{each.node_id}_offset"] = progress.end_offset
        return found

    def expected(self):
        return {} if self.client is None else self.op_state()

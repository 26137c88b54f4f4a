"""Kinds of file 06 about a whole client: requests, answers and timers, by handlers of the tests."""

from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.raft.states.timing import successor_backoff_ms
from tests.conformance.adapters.raft.client_setups import client_of, establish
from tests.conformance.adapters.raft.states import started, told
from tests.conformance.adapters.raft.whole_client import WholeClient
from tests.conformance.adapters.raft.words import Times, key_of
from tests.conformance.raft_client import changes, fetches, votes
from tests.conformance.raft_client.client import CLUSTER_ID
from tests.conformance.runner import IllegalArgumentError


class RaftClient(WholeClient):
    """A client as it was before it asked for pre-votes."""

    def __init__(
        self,
        voters=None,
        local=None,
        persisted=None,
        state=None,
        epoch=None,
        log_end_offset=0,
        log=None,
        max_backoff_ms=None,
    ):
        self.max_backoff_ms = max_backoff_ms
        self.client = None
        if voters is None:
            return
        named = {"log": log, "log_end_offset": log_end_offset}
        self.begin(client_of(local, voters, persisted=persisted, state=state, epoch=epoch, **named))

    def op_successor_backoff(self, position, n):
        place = -1 if position is None else position
        return successor_backoff_ms(place, n, self.max_backoff_ms)

    def op_end_quorum_response(self, from_):
        votes.handle_end_answer(self.client, from_)


class PreVotes(WholeClient):
    """A client that asks before it stands (KIP-996)."""

    def __init__(
        self,
        local,
        voters,
        persisted=None,
        state=None,
        epoch=None,
        log=None,
        voted_for=None,
        leader=None,
    ):
        self.local, self.ids, self.epoch = local, voters, epoch
        if persisted is None and state is None:
            state = "PROSPECTIVE"
        named = {"log": log, "voted_for": voted_for, "leader": leader}
        self.begin(
            client_of(
                local,
                voters,
                persisted=persisted,
                state=state,
                epoch=epoch,
                asks_first=True,
                **named,
            )
        )

    def op_record_prevote(self, voter, granted):
        tally = self.client.state.tally
        try:
            self.client.quorum = self.client.quorum.with_answer(voter, is_granted=granted)
        except AssertionError as error:
            raise IllegalArgumentError from error
        return voter in tally.unrecorded

    def op_status(self):
        tally = self.client.state.tally
        return {"granted": tally.is_granted, "rejected": tally.is_rejected}

    def op_persisted_for(self, leader=None, voted_for=None):
        named = {"state": "PROSPECTIVE", "epoch": self.epoch or self.client.epoch}
        quorum = started(self.local, self.ids, Times(), leader=leader, voted_for=voted_for, **named)
        found = told(quorum, Times())
        return {name: found[name] for name in ("epoch", "leader", "voted_for")}


class Snapshots(WholeClient):
    """A client that gives or takes snapshots."""

    def __init__(
        self,
        local,
        voters,
        state,
        epoch=None,
        log_end_offset=0,
        snapshot=None,
        log_start_offset=0,
        log=None,
        high_watermark=None,
        leader=None,
    ):
        named = {
            "log": log,
            "log_end_offset": log_end_offset,
            "snapshot": snapshot,
            "log_start_offset": log_start_offset,
            "high_watermark": high_watermark,
            "leader": leader,
        }
        self.begin(client_of(local, voters, state=state, epoch=epoch, **named))

    def op_fetch_snapshot_request(self, snapshot=(0, 0), position=0, epoch=None, topic=None):
        size = fetches.SNAPSHOT_BYTES
        return fetches.handle_fetch_snapshot(
            self.client,
            snapshot=snapshot,
            position=size if position == "size" else position,
            epoch=self._epoch(epoch),
            topic=topic,
        )

    def op_fetch_snapshot_from(self, replica, observer=False):
        led = self.client.state.state
        self.client.led(led.with_quorum_checked(key_of(replica), self.client.moment()))

    def op_fetch_snapshot_response(
        self, complete=False, bytes=None, error=None, epoch=None, leader=None
    ):
        fetches.handle_snapshot_answer(
            self.client,
            part=None if complete else bytes,
            error=error,
            epoch=None if epoch is None else self._epoch(epoch),
            leader=leader,
        )

    def op_create_snapshot(self, offset, epoch):
        try:
            fetches.create_snapshot(
                self.client, OffsetAndEpoch(self._offset(offset), self._epoch(epoch))
            )
        except AssertionError as error:
            raise IllegalArgumentError from error

    def op_advance_high_watermark_to_log_end(self):
        establish(self.client, "log end")


class Reconfiguration(WholeClient):
    """A client whose set of voters changes."""

    def __init__(
        self, local, voters, state, kraft_version, high_watermark, pending_change, leader=None
    ):
        self.kraft_version = kraft_version
        named = {"high_watermark": high_watermark, "leader": leader}
        self.begin(client_of(local, voters, state=state, **named))
        if pending_change is not None:
            self.client.pending_change = changes.PendingChange()

    def op_add_voter(self, voter, cluster_id=CLUSTER_ID, listeners=None):
        return changes.add_voter(
            self.client,
            key_of(voter),
            cluster_id=cluster_id,
            kraft_version=self.kraft_version,
            has_listeners=listeners is None or bool(listeners),
        )

    def op_api_versions_response(self, from_, error="NONE", supported=None):
        changes.handle_versions(self.client, from_, error=error, supported=supported)

    def op_add_voter_result(self):
        return changes.result_of(self.client)

    def op_remove_voter(self, voter, cluster_id=CLUSTER_ID):
        return changes.remove_voter(
            self.client, key_of(voter), cluster_id=cluster_id, kraft_version=self.kraft_version
        )

    def op_remove_voter_result(self):
        return changes.result_of(self.client)

    def op_update_voter(self, voter, cluster_id=CLUSTER_ID, epoch=None):
        return changes.update_voter(
            self.client,
            key_of(voter),
            cluster_id=cluster_id,
            kraft_version=self.kraft_version,
            epoch=self._epoch(epoch),
        )

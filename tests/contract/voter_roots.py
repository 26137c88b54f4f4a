"""Three voters' roots for the contract of VoterLog: in memory, and Delta tables on disks or a store."""

from dataclasses import dataclass
from typing import Any

from kafka_on_spark.base.errors import CommitOutcomeUnknownError, KafkaStorageError
from kafka_on_spark.metadata.cluster_roots import create_voter
from kafka_on_spark.metadata.metadata_root import identity_of
from kafka_on_spark.metadata.quorum.raft import adopt, begin_leadership, decide_vote, fetch, stand
from kafka_on_spark.metadata.quorum.voter_log import VoterLog
from kafka_on_spark.metadata.quorum.voter_table import TableChange, Voter, VoterSet
from kafka_on_spark.metadata.records import LeaderChangeRecord, MetadataBatch
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.roots import RootFiles
from tests.voter_fakes import STAMP, MemoryQuorum, MemoryVoterLog, VoterFault, bootstrap, voter_of


@dataclass
class Roots:
    """Three voters' roots on one side of the contract; voter 0 leads epoch 1, with its no-op."""

    open: Any  # node → VoterLog
    fault: Any  # (node, VoterFault): what happens to the next commit
    away: Any  # (node)
    empty: Any  # (node)
    restore: Any  # (node, version)


def memory_roots():
    quorum = MemoryQuorum()
    roots = quorum.roots
    return Roots(
        open=lambda node: MemoryVoterLog(roots[node], voter_of(node)),
        fault=lambda node, fault: roots[node].faults.append(fault),
        away=lambda node: setattr(roots[node], "is_offline", True),
        empty=lambda node: roots[node].empty(),
        restore=lambda node, version: roots[node].restore(version),
    )


class _Faults:
    """What is about to go wrong with Delta tables, by their roots."""

    def __init__(self, monkeypatch):
        self.faults = {}
        self.away = set()
        put = DeltaLog._put

        def faulty_put(table, version, write_id, content):
            fault = self.faults.pop(table.uri.rpartition("/")[0], None)
            if fault is VoterFault.LOST_BEFORE:
                raise CommitOutcomeUnknownError("the store failed while committing")
            put(table, version, write_id, content)
            if fault is not None:
                raise CommitOutcomeUnknownError("the store failed while committing")

        monkeypatch.setattr(DeltaLog, "_put", faulty_put)
        for owner, name in ((DeltaLog, "follow"), (DeltaLog, "is_still_at")):
            monkeypatch.setattr(owner, name, self._unless_away(getattr(owner, name), 0))
        for name in ("read", "read_all", "names"):
            monkeypatch.setattr(RootFiles, name, self._unless_away(getattr(RootFiles, name), 1))

    def _unless_away(self, call, place):
        def asked(owner, *given, **named):
            asked_for = owner.uri if place == 0 else given[0]
            path = asked_for if isinstance(asked_for, str) else asked_for[0]
            if any(path.startswith(root) for root in self.away):
                raise KafkaStorageError("the root does not answer")
            return call(owner, *given, **named)

        return asked


def _paths(folder):
    return [f"{folder}/{node}" for node in range(3)]


def _create_roots(folder, options):
    """Create three voters' roots in a folder; return their identities."""
    paths = _paths(folder)
    identities = [
        create_voter(path, options, "a-cluster", node_id=node) for node, path in enumerate(paths)
    ]
    logs = [VoterLog(path, each, options) for path, each in zip(paths, identities, strict=True)]
    voters = VoterSet.of(Voter(log.key, log.root) for log in logs)
    header, batch = bootstrap(voters)
    for log in logs:
        log.commit(log.load(), TableChange(appended=(header,)), batch)
    _lead(logs)
    return identities


def delta_roots(folder, options, monkeypatch):
    identities = _create_roots(folder, options)
    faults, paths = _Faults(monkeypatch), _paths(folder)

    def empty(node):
        files = RootFiles(paths[node], options)
        files.delete(identity_of(paths[node], options).table_at(paths[node]))
        files.delete(f"{paths[node]}/{META_PROPERTIES}")
        create_voter(paths[node], options, "a-cluster", node_id=node)

    def restore(node, version):
        files, log = RootFiles(paths[node], options), open_log(node)
        for late in range(log.load().version, version, -1):
            files.delete(f"{log.uri}/_delta_log/{late:020d}.json")

    def open_log(node):
        return VoterLog(paths[node], identities[node], options)

    return Roots(
        open=open_log,
        fault=lambda node, fault: faults.faults.update({paths[node]: fault}),
        away=lambda node: faults.away.add(paths[node]),
        empty=empty,
        restore=restore,
    )


def _lead(logs):
    """Have the first voter lead epoch 1, by all votes."""
    leader, *others = logs
    candidate = leader.commit(leader.load(), stand(leader.load(), 1))
    for log in others:
        log.commit(log.load(), decide_vote(log.load(), candidate).change)
    change = begin_leadership(candidate, {log.key for log in logs}, "no-op-1")
    leader.commit(candidate, change, _no_op(candidate))


def _no_op(candidate):
    record = LeaderChangeRecord(
        leader=candidate.key.node_id, directory_id=candidate.key.directory_id
    )
    return MetadataBatch(base_offset=candidate.log.end_offset, stamp=STAMP, records=(record,))


def lose_tail(roots, put_tail):
    """Have voter 0 put a tail and lose it to voter 2, which leads epoch 2 from then on; return the
    table of voter 0 as it was with its tail."""
    successor = roots.open(2)
    _follow(successor, roots.open(0))
    stale = put_tail()
    candidate = successor.commit(successor.load(), stand(successor.load(), 2))
    change = begin_leadership(candidate, {candidate.key, roots.open(1).load().key}, "no-op-2")
    successor.commit(candidate, change, _no_op(candidate))
    _follow(roots.open(0), successor)
    return stale


def _follow(log, leader):
    led = leader.load()
    log.commit(log.load(), adopt(log.load(), led))
    log.commit(log.load(), fetch(log.load(), led), leader)

"""One adapter a kind: vectors' words to production functions and back. No rule is held here."""

from tests.conformance.adapters.controller.broker_lives import BrokerHeartbeats, BrokerRegistrations
from tests.conformance.adapters.controller.changes import LeaderEpochBumps, PartitionChanges
from tests.conformance.adapters.controller.controller import Controller
from tests.conformance.adapters.controller.index import IsrIndex
from tests.conformance.adapters.controller.older_controller import (
    ControllerIntegration,
    ElectionAlgorithms,
    PreferredImbalance,
    ReassignmentPhases,
    ReplicaAssignment,
)
from tests.conformance.adapters.controller.partitions import (
    Elections,
    Merging,
    ReassignmentCompletion,
    ReassignmentPlan,
    ReassignmentRevert,
)
from tests.conformance.adapters.controller.placement import Ring, Striped
from tests.conformance.adapters.logs.compaction import CleanableRange, Compaction
from tests.conformance.adapters.logs.log_offsets import ListOffsets, LogOffsets
from tests.conformance.adapters.logs.log_start import DeleteRecords
from tests.conformance.adapters.logs.partitioner import Partitioner
from tests.conformance.adapters.logs.producers import IdempotentLog, ProducerState
from tests.conformance.adapters.logs.retention import Retention
from tests.conformance.adapters.raft.leaders import LeaderHighWatermark
from tests.conformance.adapters.raft.logs import EndOffset, RaftLogs, ValidateOffset
from tests.conformance.adapters.raft.votes import (
    CandidateVotes,
    Quorum,
    QuorumInit,
    RaftClient,
    VoteGrants,
)
from tests.conformance.adapters.replication.epochs import (
    EpochLog,
    FetchDivergence,
    LeaderEpochCache,
    OffsetsForLeaderEpoch,
)
from tests.conformance.adapters.replication.fetch_state import FetchState
from tests.conformance.adapters.replication.fetcher import (
    FetchError,
    OffsetReset,
    Reconcile,
    TruncationState,
)
from tests.conformance.adapters.replication.fetcher_rounds import Fetcher
from tests.conformance.adapters.replication.gates import Gates
from tests.conformance.adapters.replication.leader import Leader

ADAPTERS = {
    "leader_epoch_cache": LeaderEpochCache,
    "epoch_log": EpochLog,
    "offsets_for_leader_epoch": OffsetsForLeaderEpoch,
    "fetch_divergence": FetchDivergence,
    "high_watermark": Leader,
    "fetch_state": FetchState,
    "truncation_state": TruncationState,
    "fetcher": Fetcher,
    "fetch_error": FetchError,
    "offset_reset": OffsetReset,
    "reconcile": Reconcile,
    "gates": Gates,
    "isr": Leader,
    "list_offsets": ListOffsets,
    "log_offsets": LogOffsets,
    "retention": Retention,
    "compaction": Compaction,
    "cleanable_range": CleanableRange,
    "delete_records": DeleteRecords,
    "idempotent_log": IdempotentLog,
    "producer_state": ProducerState,
    "partitioner": Partitioner,
    "broker_ring": Ring,
    "striped": Striped,
    "controller": Controller,
    "elect_leader": Elections,
    "partition_change": PartitionChanges,
    "leader_epoch_bump": LeaderEpochBumps,
    "isr_index": IsrIndex,
    "broker_heartbeat": BrokerHeartbeats,
    "broker_registration": BrokerRegistrations,
    "merge_record": Merging,
    "reassignment_plan": ReassignmentPlan,
    "reassignment_complete": ReassignmentCompletion,
    "reassignment_revert": ReassignmentRevert,
    "election_algorithm": ElectionAlgorithms,
    "replica_assignment": ReplicaAssignment,
    "reassignment_phases": ReassignmentPhases,
    "controller_integration": ControllerIntegration,
    "preferred_imbalance": PreferredImbalance,
    "quorum_init": QuorumInit,
    "quorum_transition": Quorum,
    "vote_grant": VoteGrants,
    "candidate_votes": CandidateVotes,
    "leader_high_watermark": LeaderHighWatermark,
    "raft_client": RaftClient,
    "raft_log": RaftLogs,
    "raft_end_offset": EndOffset,
    "raft_validate_offset": ValidateOffset,
}

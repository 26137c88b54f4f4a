"""Which adapter translates which kind."""

from collections.abc import Mapping
from typing import Any

from tests.conformance.adapters.epochs import (
    EpochLog,
    FetchDivergence,
    LeaderEpochCache,
    OffsetsForLeaderEpoch,
)
from tests.conformance.adapters.fetching import (
    Fetcher,
    FetchError,
    OffsetReset,
    Reconcile,
    TruncationState,
)
from tests.conformance.adapters.gates import Gates
from tests.conformance.adapters.isr import Leader
from tests.conformance.adapters.log_offsets import DeleteRecords, ListOffsets, LogOffsets, Retention
from tests.conformance.adapters.partitioning import Partitioner

ADAPTERS: Mapping[str, Any] = {
    "leader_epoch_cache": LeaderEpochCache,
    "epoch_log": EpochLog,
    "offsets_for_leader_epoch": OffsetsForLeaderEpoch,
    "fetch_divergence": FetchDivergence,
    "isr": Leader,
    "high_watermark": Leader,
    "fetch_state": Leader,
    "gates": Gates,
    "truncation_state": TruncationState,
    "fetcher": Fetcher,
    "offset_reset": OffsetReset,
    "fetch_error": FetchError,
    "reconcile": Reconcile,
    "log_offsets": LogOffsets,
    "list_offsets": ListOffsets,
    "retention": Retention,
    "delete_records": DeleteRecords,
    "partitioner": Partitioner,
}

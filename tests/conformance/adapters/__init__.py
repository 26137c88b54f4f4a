"""One adapter a kind: vectors' words to production functions and back. No rule is held here."""

from tests.conformance.adapters.epochs import (
    EpochLog,
    FetchDivergence,
    LeaderEpochCache,
    OffsetsForLeaderEpoch,
)
from tests.conformance.adapters.partitioner import Partitioner

ADAPTERS = {
    "leader_epoch_cache": LeaderEpochCache,
    "epoch_log": EpochLog,
    "offsets_for_leader_epoch": OffsetsForLeaderEpoch,
    "fetch_divergence": FetchDivergence,
    "partitioner": Partitioner,
}

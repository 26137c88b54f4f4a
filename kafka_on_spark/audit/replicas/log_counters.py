"""The counters that each commit to a replica's table sets for the whole log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ids import NO_CHAIN, ChainDigest
from kafka_on_spark.log.chain import from_halves

LOG_START_OFFSET: Final = "log-start-offset"
LOG_END_OFFSET: Final = "log-end-offset"
LEADER_EPOCH: Final = "leader-epoch"
CHAIN_HIGH: Final = "chain-high"
CHAIN_LOW: Final = "chain-low"
PRODUCER_STATE: Final = "producer-state"
PRODUCER_DIGEST: Final = "producer-digest"


@dataclass(frozen=True, slots=True)
class LogCounters:
    """The counters that commits set for the whole log."""

    start: int = 0
    end: int = 0
    fence: int | None = None
    chain: ChainDigest = NO_CHAIN
    producer_digest: int = 0

    def after(self, counters: Mapping[str, int]) -> "LogCounters":
        """Return them after a commit."""
        return LogCounters(
            counters.get(LOG_START_OFFSET, self.start),
            counters.get(LOG_END_OFFSET, self.end),
            counters.get(LEADER_EPOCH, self.fence),
            from_halves(counters[CHAIN_HIGH], counters.get(CHAIN_LOW))
            if CHAIN_HIGH in counters
            else self.chain,
            counters.get(PRODUCER_DIGEST, self.producer_digest),
        )

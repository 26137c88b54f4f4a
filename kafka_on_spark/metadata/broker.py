"""The registration of one broker: a storage root without a process."""

from dataclasses import dataclass, replace
from enum import Enum

from kafka_on_spark.base.ids import BrokerEpoch, BrokerId, DirectoryId


class BrokerState(Enum):
    """Whether a broker's replicas count. Source: KRaft's BrokerRegistration flags."""

    ACTIVE = "active"  # may lead and be in sync
    FENCED = "fenced"  # its root does not answer: it leads nothing and is in no ISR
    DRAINING = "draining"  # controlled shutdown: keeps its replicas, takes no leadership


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """A write for which a broker's root has no room, or any if it is read-only.

    Attributes:
        size_bytes: Of the write; 0: the root is read-only.
        hosts: Which have met it: the first two.
    """

    size_bytes: int
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        if not self.size_bytes:
            return "read-only"
        return f"full (no room for {self.size_bytes:,} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker, as of one metadata offset.

    Attributes:
        broker_id: Its id.
        broker_epoch: Registrations of this id so far; another disk is another registration.
        root: URL of its root.
        rack: Failure domain, or None.
        directory_id: Identity of the disk, as ``meta.properties`` on the root says.
        state: See BrokerState.
        fenced_since_ms: Time (ms since 1970 UTC) of the commit that fenced it, as the metadata log
            says it; None unless it is fenced.
        refused: What its root takes no more, as long as nobody has seen otherwise: what it is
            fenced for, or what the active controller is to look at.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    root: str
    rack: str | None
    directory_id: DirectoryId
    state: BrokerState
    fenced_since_ms: int | None = None
    refused: RefusedWrite | None = None

    @property
    def is_eligible(self) -> bool:
        """Whether its replicas may lead: registered, unfenced, not shutting down."""
        return self.state is BrokerState.ACTIVE

    @property
    def is_online(self) -> bool:
        return self.state is not BrokerState.FENCED

    @property
    def has_upkeep(self) -> bool:
        """Whether its replicas are trimmed and cleaned: also those on a root that is full, which
        gets room by it."""
        return self.is_online or (self.refused is not None and self.refused.size_bytes > 0)

    def put_in(
        self, state: BrokerState, time_ms: int, refused: RefusedWrite | None = None
    ) -> "BrokerRegistration":
        """Return it in `state`, as set by a commit at `time_ms`; fenced again, it keeps the time.

        The time is that of a batch in the metadata log, so every process counts from the same one.
        """
        since_ms = None
        if state is BrokerState.FENCED:
            since_ms = time_ms if self.fenced_since_ms is None else self.fenced_since_ms
        return replace(self, state=state, fenced_since_ms=since_ms, refused=refused)

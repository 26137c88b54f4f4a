"""What the controller knows of one broker: a storage root without a process."""

from dataclasses import dataclass
from enum import Enum

from kafka_on_spark.ids import BrokerEpoch, BrokerId, DirectoryId


class BrokerState(Enum):
    """Whether a broker's replicas count. Source: KRaft's BrokerRegistration flags."""

    ACTIVE = "active"  # may lead and be in sync
    FENCED = "fenced"  # its root does not answer: it leads nothing and is in no ISR
    DRAINING = "draining"  # controlled shutdown: keeps its replicas, takes no leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker, as of one metadata offset.

    Attributes:
        broker_id: Its id.
        broker_epoch: Registrations of this id so far; another disk is another one.
        root: URL of its root.
        rack: Failure domain, or None.
        directory_id: Identity of the disk, as ``meta.properties`` on the root says.
        state: See BrokerState.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    root: str
    rack: str | None
    directory_id: DirectoryId
    state: BrokerState

    @property
    def is_eligible(self) -> bool:
        """Whether its replicas may lead: registered, unfenced, not shutting down."""
        return self.state is BrokerState.ACTIVE

    @property
    def is_online(self) -> bool:
        """Whether its root is believed to answer."""
        return self.state is not BrokerState.FENCED

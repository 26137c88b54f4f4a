"""Kinds of file 02 about brokers: what registrations, absences, returns and drainings lead to.

Kafka's broker is a process that registers and beats. Ours is a root that answers probes: an
incarnation of the process is a disk here, a beat is a probe that is answered, a wish to be fenced
is one that fails, a wish to shut down is a request to drain.
"""

from dataclasses import replace

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, DirectoryId
from kafka_on_spark.controller.brokers import (
    continue_draining,
    drain_broker,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kafka_on_spark.controller.topics import Stripes
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import BrokerRecord, BrokerState
from tests.builders import KEY, disk, image_of, partition
from tests.committing import committed
from tests.conformance.runner import Adapter, Answer, CutOffError

PROCESS = "brokers-are-roots"
OTHER = 50
REFUSED = {"error": frozenset({"INTERNAL", "ILLEGAL_STATE"})}
WORDS = {BrokerState.ACTIVE: "UNFENCED", BrokerState.FENCED: "FENCED"}


class BrokerHeartbeats(Adapter):
    """Brokers in their states."""

    def __init__(self, brokers=None, session_timeout_ms=9000, register_offset=0, contacts_ms=None):
        if contacts_ms is not None:
            raise CutOffError(PROCESS)  # sessions are counted by probes, see their reason
        self.register_offset = register_offset
        self.image = MetadataImage()
        self.failed_draining = set()
        for broker_id, about in (brokers or {}).items():
            self.register(BrokerId(int(broker_id)), **about)

    def register(
        self, broker_id, fenced, metadata_offset=-1, rack=None, controlled_shutdown_offset=-1
    ):
        state = BrokerState.ACTIVE
        if controlled_shutdown_offset >= 0:
            state = BrokerState.DRAINING
        record = BrokerRecord(
            broker_id=broker_id,
            broker_epoch=0,
            root=f"memory://{broker_id}",
            rack=rack,
            directory_id=disk(broker_id),
            broker_state=BrokerState.FENCED if fenced else state,
        )
        self.image = committed(self.image, [record])

    def op_fence(self, broker):
        if self.image.brokers[broker].state is BrokerState.DRAINING:
            self.failed_draining.add(broker)
        self.image = committed(self.image, fence_broker(self.image, broker, "fails").records)

    def op_touch(self, broker, fenced=True, metadata_offset=-1):
        if broker not in self.image.brokers:
            return Answer(None, {"error": PROCESS})  # only who is registered is probed
        if fenced:
            self.op_fence(broker)
        else:
            records = unfence_broker(self.image, broker, "answers").records
            self.image = committed(self.image, records)
        return None

    def op_set_controlled_shutdown_offset(self, broker, offset):
        try:
            records = drain_broker(self.image, broker, "shuts down").records
        except InvalidRequestError:
            return REFUSED
        self.image = committed(self.image, records)
        return Answer(None, {"": PROCESS})

    def op_unfence(self, broker, metadata_offset=-1):
        self.op_touch(broker, fenced=False)

    def op_usable_brokers(self):
        """Ask for one partition on all brokers there are: the first is on one that is active."""
        brokers = self.image.brokers
        is_draining = any(each.state is BrokerState.DRAINING for each in brokers.values())
        # One that drains gets replicas where others do not suffice, as in Kafka's own registry;
        # what Kafka's heartbeats know of it beside that has no counterpart.
        if self.failed_draining or is_draining or not self.image.eligible_brokers():
            return Answer(None, {"": PROCESS})
        stripes = Stripes(brokers.values(), lambda bound: 0)
        usable = sorted(stripes.place(stripes.broker_count))
        return [[each, brokers[each].rack, not brokers[each].is_eligible] for each in usable]

    def op_lowest_active_offset(self):
        return Answer(None, {"": PROCESS})

    def op_find_one_stale(self, now_ms):
        return Answer(None, {"": PROCESS})

    def op_next_state(self, broker, want_fence, want_shutdown, metadata_offset, has_leaderships):
        """Return what would become of a broker; nothing does."""
        image = self.image
        state = image.brokers[broker].state
        if state is BrokerState.DRAINING:
            return self.drained(image, broker, has_leaderships)
        if broker in self.failed_draining:
            return Answer(None, {"": PROCESS})  # its draining is over once its root fails
        is_behind = state is BrokerState.FENCED and metadata_offset < self.register_offset
        if is_behind and not (want_fence or want_shutdown):
            return Answer(None, {"": PROCESS})  # it does not know that it is registered
        if want_fence:
            image = committed(image, fence_broker(image, broker, "fails").records)
        if want_shutdown:
            return self.drained(image, broker, has_leaderships)
        if not want_fence:
            image = committed(image, unfence_broker(image, broker, "answers").records)
        return WORDS[image.brokers[broker].state]

    def drained(self, image, broker, has_leaderships):
        """Return what becomes of a broker that drains and leads what nobody else can, or nothing.

        Kafka's waits as well until all others know that it leads nothing.
        """
        if image.brokers[broker].state is BrokerState.DRAINING and not has_leaderships:
            return Answer(None, {"": PROCESS})
        sole = partition(f"{broker} {OTHER}", isr=str(broker))
        led = sole if has_leaderships else partition(f"{OTHER} {broker}")
        world = image_of(led, ids=str(OTHER))
        brokers = {**world.brokers, **image.brokers}
        image = replace(image, brokers=brokers, topics=world.topics, topic_ids=world.topic_ids)
        try:
            image = committed(image, drain_broker(image, broker, "shuts down").records)
        except InvalidRequestError:
            return "SHUTDOWN_NOW"
        while records := continue_draining(image).records:
            image = committed(image, records)
        leads = image.partition(KEY).leader == broker
        return "CONTROLLED_SHUTDOWN" if leads else "SHUTDOWN_NOW"


class BrokerRegistrations(Adapter):
    """Brokers that register, one incarnation after the other."""

    def __init__(self, cluster_id, registered=None):
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.told = {}  # what Kafka's epochs are called here
        for broker_id, epoch in (registered or {}).items():
            self.op_register(BrokerId(int(broker_id)), "registered", epoch)

    def op_register(self, broker, incarnation, record_offset=None, cluster_id=None):
        if cluster_id not in (None, self.cluster_id):
            raise CutOffError(PROCESS)  # who registers a root is the cluster that writes its name
        known = self.image.brokers.get(broker)
        if known is not None and known.directory_id == f"{broker} {incarnation}":
            # The same disk comes back by answering, as what it was.
            return {"broker_epoch": self.told[broker, known.broker_epoch]}
        result = register_broker(
            self.image,
            broker,
            f"memory://{broker}",
            rack=None,
            directory_id=DirectoryId(f"{broker} {incarnation}"),
            cause="",
        )
        self.told.setdefault((broker, result.response), record_offset)
        self.image = committed(self.image, result.records)
        # Without a beat it has no session: it is away until then.
        self.image = committed(self.image, fence_broker(self.image, broker, "no beat").records)
        return {"broker_epoch": self.told[broker, self.image.brokers[broker].broker_epoch]}

    def op_heartbeat(self, broker, broker_epoch):
        self.image = committed(self.image, unfence_broker(self.image, broker, "beats").records)

    def op_check_broker_epoch(self, broker, broker_epoch):
        known = self.image.brokers.get(broker)
        if known is not None and self.told[broker, known.broker_epoch] == broker_epoch:
            return {}
        return Answer(None, {"error": PROCESS})

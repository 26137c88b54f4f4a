"""Kinds of file 08: the older controller, whose phases our reassignments have."""

from kafka_on_spark.base.ids import NO_CHAIN
from kafka_on_spark.controller import lease
from kafka_on_spark.controller.brokers import (
    continue_draining,
    drain_broker,
    fence_broker,
    unfence_broker,
)
from kafka_on_spark.controller.election import (
    elect_by_inspections,
    elect_leader,
    elect_preferred,
    imbalance_percentages,
)
from kafka_on_spark.controller.reassignment import (
    advance_reassignments,
    cancel_reassignments,
    next_step,
    roles_of,
)
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.builders import KEY, TOPIC, disk, elect_unclean, image_of
from tests.committing import replay
from tests.conformance.adapters.controller.moves import start_or_replace
from tests.conformance.adapters.controller.partitions import SETS, registration, words
from tests.conformance.runner import Adapter, Answer, CutOffError

NOBODY = -1
CLEAN_ALWAYS = ("REASSIGN", "PREFERRED")


class ElectionAlgorithms(Adapter):
    """Which replica leads, by each of the four algorithms."""

    def __init__(self, assignment, isr, live, unclean_enabled=False, shutting_down=()):
        self.given = (assignment, isr)
        self.live = frozenset(live)
        self.shutting_down = frozenset(shutting_down)
        self.is_unclean_allowed = unclean_enabled
        self.answer = {}

    def op_elect(self, algorithm):
        one = registration(*self.given)
        if algorithm == "CONTROLLED_SHUTDOWN":
            self.answer = {"leader": self.drained(one)}
            return
        is_preferred = algorithm == "PREFERRED"
        if is_preferred and self.given[1]:  # or it would be another election
            one = registration(*self.given, leader=self.given[1][-1])
        if algorithm not in CLEAN_ALWAYS and self.is_unclean_allowed:
            leader, is_unclean = elect_unclean(one, self.live)
        else:
            leader, is_unclean = elect_leader(one, self.live, preferred=is_preferred), False
        has_moved = one.leader is None or leader == one.replicas[0]
        self.answer = {"leader": leader if has_moved else None, "unclean": is_unclean}

    def drained(self, one):
        """The leader is one that is shutting down; who follows it takes over, or nobody does."""
        leader = min(self.shutting_down)
        fenced = words(set(one.replicas) - self.live)
        change = PartitionChange(leader=leader)
        image = image_of(one.merge(change), ids=words(one.replicas), fenced=fenced)
        for broker_id in sorted(self.shutting_down):
            image = replay(image, drain_broker(image, broker_id, "shuts down"))
        after = image.partition(KEY).leader
        return None if after in self.shutting_down else after

    def expected(self):
        return self.answer


class ReplicaAssignment(Adapter):
    """Which brokers come and go, and what a reassignment leads to."""

    def __init__(self, current):
        self.one = registration(isr=current["replicas"], **current)

    def op_reassign_to(self, target):
        if self.one.is_reassigning and tuple(target) != self.one.target_replicas:
            raise CutOffError("replaced-as-in-kraft")
        if tuple(target) != self.one.target_replicas:
            roles = roles_of(self.one.replicas, target)
            self.one = registration(
                roles.replicas, roles.replicas, adding=roles.adding, removing=roles.removing
            )

    def op_target_replicas(self):
        return None

    def expected(self):
        return {
            "replicas": list(self.one.replicas),
            "adding": list(self.one.adding_replicas),
            "removing": list(self.one.removing_replicas),
            "target_replicas": list(self.one.target_replicas),
            "being_reassigned": self.one.is_reassigning,
        }


def changed(image, **fields):
    """Return the image after a change of the partition that no decision of ours is about."""
    change = PartitionChange(**fields)
    epochs = image.partition(KEY).epochs_after(change)
    record = PartitionChangeRecord(
        topic_id=KEY.topic_id,
        partition=0,
        change=change,
        topic=TOPIC,
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
    )
    return replay(image, ControllerResult([record], None))


class _Moving(Adapter):
    """One partition on brokers, and what is decided about it."""

    SETS = SETS

    def start(self, one, brokers, down=()):
        self.image = image_of(one, ids=words(brokers), fenced=words(down))
        self.uuids = 0

    @property
    def one(self):
        return self.image.partition(KEY)

    def new_uuid(self):
        self.uuids += 1
        return f"new{self.uuids}"

    def reassign(self, target):
        self.image = replay(self.image, start_or_replace(self.image, KEY, target, self.new_uuid))

    def make(self):
        self.image = changed(
            self.image, directories=tuple(disk(each) for each in self.one.replicas)
        )

    def state(self):
        one = self.one
        return {
            "leader": NOBODY if one.leader is None else one.leader,
            "leader_epoch": one.leader_epoch,
            "isr": sorted(one.isr),
            "replicas": list(one.replicas),
        }


class ReassignmentPhases(_Moving):
    """What each phase does."""

    def __init__(
        self, replicas, isr=(), leader=NOBODY, leader_epoch=0, adding=(), removing=(), live=None
    ):
        down = () if live is None else {*range(10)} - {*live}
        self.start(
            registration(
                replicas,
                isr or replicas,
                leader if leader != NOBODY else replicas[0],
                adding=adding,
                removing=removing,
                leader_epoch=leader_epoch,
            ),
            range(10),
            down,
        )
        self.before = frozenset(replicas)

    def op_reassign(self, target):
        if self.one.is_reassigning:
            raise CutOffError("replaced-as-in-kraft")
        self.reassign(target)

    def op_complete_reassignment(self):
        while (result := advance_reassignments(self.image)).records:
            self.image = replay(self.image, result)

    def op_cancel(self):
        self.image = replay(self.image, cancel_reassignments(self.image, [KEY], cause="asked"))

    def op_is_complete(self, isr):
        one = registration(
            self.one.replicas,
            isr,
            adding=self.one.adding_replicas,
            removing=self.one.removing_replicas,
        )
        return next_step(one, frozenset(range(10))) is not None

    def expected(self):
        coming = [each for each in self.one.replicas if self.one.directory_of(each) is None]
        answer = {
            **self.state(),
            "adding": list(self.one.adding_replicas),
            "removing": list(self.one.removing_replicas),
            "new_replicas_started": coming,
            "stop_and_delete": sorted(self.before.difference(self.one.replicas)),
            "in_progress": self.one.is_reassigning,
        }
        # The steps are those of `reassignment`; no leadership begins with the first of them.
        left_out = {"leader_epoch": "epochs-advance-with-a-named-leader", "rows": "moved-in-rows"}
        return Answer(answer, left_out)


class ControllerIntegration(_Moving):
    """A partition's life on a few brokers."""

    def __init__(
        self, brokers, replicas=(), down=(), unclean=False, controller=None, auto_rebalance=False
    ):
        everyone = replicas or brokers
        alive = [each for each in everyone if each not in down] or everyone
        self.start(registration(everyone, alive, alive[0]), brokers, down)
        self.is_unclean_allowed = unclean
        self.is_rebalancing = auto_rebalance
        self.has_moved = False
        self.claim()

    def claim(self):
        result = lease.claim(self.image, "another", "", seen=self.image.controller)
        self.image = replay(self.image, result)

    def op_controller_epoch(self):
        return self.image.controller.controller_epoch + 1  # Kafka's first controller has epoch 1

    def op_restart_controller(self):
        self.claim()

    def op_reassign(self, target):
        self.has_moved = True
        if not self.image.eligible_brokers().issuperset(target):
            raise CutOffError("only-active-brokers-take-replicas")
        self.reassign(target)
        self.make()
        self.image = changed(self.image, isr=frozenset(self.one.replicas))
        while (result := advance_reassignments(self.image)).records:
            self.image = replay(self.image, result)

    def op_partition_state(self):
        # KRaft's rows, which hold for the epochs: no leadership begins with row A.
        reason = "epochs-advance-with-a-named-leader"
        return Answer(self.state(), {"leader_epoch": reason} if self.has_moved else {})

    def op_in_progress(self):
        return self.one.is_reassigning

    def op_stop(self, broker):
        self.image = replay(self.image, fence_broker(self.image, broker, "stops"))
        self.recover()

    def op_start(self, broker):
        self.image = replay(self.image, unfence_broker(self.image, broker, "starts"))
        self.recover()
        if self.one.leader is not None and broker in self.one.replicas:  # it catches up
            self.image = changed(self.image, isr=self.one.isr | {broker})
        if self.is_rebalancing:
            self.op_preferred_election()

    def recover(self):
        """Have a replica that can prove nothing lead, where that is allowed."""
        if self.one.leader is not None or not self.is_unclean_allowed:
            return
        inspections = [
            ReplicaInspection(
                key=KEY,
                broker_id=each,
                partition_epoch=self.one.partition_epoch,
                high_watermark=self.one.high_watermark,
                log_start_offset=0,
                log_end_offset=0,
                last_epoch=None,
                epoch_below_high_watermark=None,
                chain_digest=NO_CHAIN,
                chain_at_high_watermark=None,
            )
            for each in self.one.replicas
            if self.image.is_eligible(each)
        ]
        self.image = replay(
            self.image, elect_by_inspections(self.image, inspections, forced=frozenset({KEY}))
        )

    def op_wait_isr(self, isr):
        self.image = changed(self.image, isr=frozenset(isr))

    def op_preferred_election(self):
        self.image = replay(self.image, elect_preferred(self.image, "asked"))

    def op_controlled_shutdown(self, broker, broker_epoch=None):
        if broker_epoch is not None:
            raise CutOffError("wire-detail")
        self.image = replay(self.image, drain_broker(self.image, broker, "shuts down"))
        for _ in range(2):
            self.image = replay(self.image, continue_draining(self.image))
        return {"remaining": int(self.one.leader == broker)}


class PreferredImbalance(Adapter):
    """How many partitions are led by another than their preferred leader."""

    def __init__(self, assignment):
        self.replicas = dict(assignment)
        self.leaders = {name: replicas[0] for name, replicas in assignment.items()}

    def op_leader(self, partition, leader):
        if partition in self.replicas:
            self.leaders[partition] = leader

    def op_assign(self, partition, replicas):
        self.replicas[partition] = replicas

    def op_queue_deletion(self, partition):
        del self.replicas[partition]

    def op_imbalance(self):
        image = image_of(
            *(registration(each, each, self.leaders[name]) for name, each in self.replicas.items()),
            ids=words(range(10)),
        )
        firsts = [each[0] for each in self.replicas.values()]
        shares = {each: share / 100 for each, share in imbalance_percentages(image).items()}
        return round(sum(share * firsts.count(each) for each, share in shares.items()))

"""The kind "controller" of file 02: the life of a cluster, decided on images and nothing else."""

from dataclasses import replace
from typing import ClassVar

from kafka_on_spark.base.errors import InvalidReplicaAssignmentError, KafkaOnSparkError
from kafka_on_spark.controller import topics
from kafka_on_spark.controller.election import elect_preferred, imbalance_percentages, leaderless
from kafka_on_spark.controller.isr import alter_isr
from kafka_on_spark.controller.reassignment import (
    cancel_reassignments,
    list_reassignments,
    roles_of,
)
from kafka_on_spark.controller.topics import check_assignment
from kafka_on_spark.metadata.records import BrokerState
from tests.conformance.adapters.controller.controller_brokers import ControllerBrokers
from tests.conformance.adapters.controller.controller_world import EPOCHS
from tests.conformance.adapters.controller.moves import start_or_replace
from tests.conformance.adapters.controller.partitions import state_of
from tests.conformance.runner import Answer, CutOffError, kafka_names

# Of a request on older or newer epochs: which name it gets rests on the request as a whole.
STALE = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "INELIGIBLE_REPLICA",
        "INVALID_REQUEST",
        "INVALID_UPDATE_VERSION",
        "NOT_CONTROLLER",
        "STALE_BROKER_EPOCH",
    }
)
REORDERED = "isr-is-a-set"
UNMOVED = ("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE")


class Controller(ControllerBrokers):
    """What is decided on a cluster's metadata."""

    CUT_OFF: ClassVar = {
        "replay_topic_record": "replay-is-total",
        "assign_replicas_to_dirs": "one-disk-a-broker",
        "directory_offline": "one-disk-a-broker",
    }

    # Topics

    def op_create_topic(
        self, topic, partitions=-1, replication_factor=-1, assignment=None, validate_only=False
    ):
        return self.create_topic(
            topic, partitions, replication_factor, assignment, validate_only=validate_only
        )

    def op_validate_topic_name(self, topic):
        self.create_topic(topic, 1, 1, validate_only=True)

    def op_delete_topic(self, topic=None, topic_id=None):
        if topic_id is not None:
            return Answer({}, dict.fromkeys(("error", "records"), "wire-detail"))
        self.topic_ids[topic] = self.image.topic(topic).topic_id
        records, _ = self.decide(topics.delete_topic(self.image, topic, cause=""))
        return {"records": records}

    def op_create_partitions(self, topic, total, assignment=None):
        known = self.image.topic(topic).partitions
        factors = {len(each.replicas) for each in known.values()}
        if assignment and len(factors) > 1:
            raise CutOffError("as-many-as-the-first-partition")
        first = len(known)
        self.decide(
            topics.add_partitions(
                self.image,
                topic,
                to=total,
                replica_assignment=assignment and dict(enumerate(assignment, first)),
                new_uuid=self.new_uuid,
                random_below=lambda bound: 0,
                cause="",
            )
        )
        self.append_everywhere()

    def op_validate_assignment(self, replicas, required_replication_factor=None):
        def check(image):
            factor = required_replication_factor
            check_assignment(image, {0: replicas}, replication_factor=factor)

        try:
            check(self.image)
        except InvalidReplicaAssignmentError:
            brokers = self.image.brokers.items()
            active = {each: replace(one, state=BrokerState.ACTIVE) for each, one in brokers}
            check(replace(self.image, brokers=active))  # it was refused for who is away alone
            return Answer({}, {"error": "nobody-active-is-refused-at-once"})
        return {}

    def op_set_config(self, scope, key, value):
        if scope == "node":
            raise CutOffError("no-settings-of-a-node")
        if scope == "cluster":
            self.alter(topics.alter_cluster_configs(self.image, {key: value}, cause=""))
            return
        for topic in list(self.image.topic_ids):
            self.op_set_topic_config(topic, key, value)

    def op_set_topic_config(self, topic, key, value):
        if topic not in self.image.topic_ids:
            raise CutOffError("wire-detail")  # Kafka keeps settings of what is not there
        self.alter(topics.alter_configs(self.image, topic, {key: value}, cause=""))

    def alter(self, result):
        """Commit settings, which the vectors put in place without what goes with them."""
        before = self.index("elr")
        self.decide(result)
        if self.index("elr") != before:
            raise CutOffError("another-minimum-empties-elrs")

    def op_effective_min_isr(self, topic):
        """It is asked for where it counts: by `is_under_min_isr`."""
        return Answer(None, {"": "wire-detail"})

    # Partitions

    def op_partition_state(self, topic, partition):
        key = self.key(topic, partition)
        return Answer(self.state(key), self.epochs_left_out(key))

    def state(self, key):
        state = state_of(self.image.partition(key))
        return {**state, "replicas_set": sorted(state["replicas"])}

    def epochs_left_out(self, key):
        reason = self.left_out.get(key)
        left_out = {} if reason is None else dict.fromkeys(EPOCHS, reason)
        left_out |= {"last_known_elr": "no-last-known-leader", "recovery": "no-recovery-state"}
        if reason == "moved-in-rows" and self.elr_enabled:
            left_out["elr"] = "no-such-state"  # Kafka's may have members that are no replicas
        return left_out

    def op_alter_partition(
        self,
        broker,
        partition,
        isr=(),
        topic=None,
        broker_epoch=None,
        leader_epoch=None,
        partition_epoch=None,
        recovery="RECOVERED",
        isr_broker_epochs=None,
        topic_id=None,
        version=None,
    ):
        names = ("error", "level", "leader", "isr", *EPOCHS)
        if version == 1 or topic not in self.image.topic_ids:  # 1: its errors have other names
            return Answer({}, dict.fromkeys(names, "wire-detail"))
        key = self.key(topic, partition)
        one = self.image.partition(key)
        if partition_epoch is not None:  # Kafka has counted each reordering of the ISR
            partition_epoch -= self.reorders[key]
        report = self.report(key, one, frozenset(isr), leader_epoch, partition_epoch)
        is_stale = leader_epoch not in (None, one.leader_epoch) or partition_epoch not in (
            None,
            one.partition_epoch,
        )
        counts_more = self.left_out.get(key, REORDERED) != REORDERED
        if counts_more and is_stale:
            raise CutOffError(self.left_out[key])  # the epochs in it are Kafka's
        if is_stale and alter_isr(self.image, report) is None:
            # It leads to nothing, which nobody is told, since nobody asked.
            return Answer({"error": STALE}, {"level": "wire-detail"})
        epochs = {broker: broker_epoch, **(isr_broker_epochs or {})}
        if recovery != "RECOVERED" or self.is_bad_request(one, broker, isr, epochs):
            return Answer({}, dict.fromkeys(names, "wire-detail"))
        change = alter_isr(self.image, report)
        reached = one.isr if change is None else change.change.isr
        if not reached >= set(isr):
            # The rule leaves it out; nobody is told, since nobody asked.
            return Answer({"error": STALE if counts_more else frozenset({"INELIGIBLE_REPLICA"})})
        if counts_more and partition_epoch is not None:
            raise CutOffError(self.left_out[key])  # our epoch may be newer than Kafka's
        return self.commit_isr(key, isr, change)

    def commit_isr(self, key, isr, change):
        """Commit an ISR; its members in another order are a change in Kafka alone."""
        one = self.image.partition(key)
        self.replay([] if change is None else [change])
        known = [each for each in self.orders.get(key, one.replicas) if each in isr]
        self.orders[key] = list(isr)
        if change is None and known != list(isr):
            self.reorders[key] += 1
            self.left_out.setdefault(key, REORDERED)
        self.finish_pass()
        is_over = one.is_reassigning and not self.image.partition(key).is_reassigning
        left_out = dict.fromkeys(("error", "leader", "isr"), "moved-in-rows") if is_over else {}
        return Answer(self.state(key), {**self.epochs_left_out(key), **left_out})

    def is_bad_request(self, one, broker, isr, epochs):
        return (
            broker != one.leader
            or broker not in isr
            or not set(isr) <= set(one.replicas)
            or any(epoch not in (None, self.epoch_of(each)) for each, epoch in epochs.items())
        )

    # Moves and elections

    def op_reassign(self, topic, partition, target):
        try:
            key = self.key(topic, partition)
        except KafkaOnSparkError as error:
            return refusal(error)
        one = self.image.partition(key)
        is_replaced = one.is_reassigning
        self.orders.setdefault(key, list(one.replicas))
        # KRaft keeps who came, or went, for the old move where nobody does for the new one.
        kept = [one.adding_replicas, one.removing_replicas]
        roles = roles_of(one.replicas, target)
        if any(
            old and not new for old, new in zip(kept, (roles.adding, roles.removing), strict=True)
        ):
            raise CutOffError("replaced-as-a-whole")
        coming = set(target) - set(self.image.partition(key).replicas)
        if any(each in self.image.brokers and not self.image.is_eligible(each) for each in coming):
            raise CutOffError("only-active-brokers-take-replicas")
        try:
            result = start_or_replace(self.image, key, target, self.new_uuid)
        except KafkaOnSparkError as error:
            return refusal(error)
        records, _ = self.decide(result)
        before = self.image.partition(key)
        self.finish_pass()
        left_out = (
            {"records": "moved-in-rows"}
            if is_replaced or before is not self.image.partition(key)
            else {}
        )
        return Answer({"records": records}, left_out)

    def op_cancel_reassignment(self, topic, partition):
        key = self.key(topic, partition)
        one = self.image.partition(key)
        if one.is_reassigning and not one.isr.intersection(one.original_replicas):
            raise CutOffError("cancel-keeps-records")
        try:
            result = cancel_reassignments(self.image, [key], cause="")
        except KafkaOnSparkError as error:
            return refusal(error)
        records, _ = self.decide(result)
        self.finish_pass()
        return {"records": records}

    def op_list_reassignments(self):
        return {
            str(each.name): {
                "removing": list(each.removing),
                "adding": list(each.adding),
                "replicas": list(self.image.partition(each.key).replicas),
            }
            for each in list_reassignments(self.image)
        }

    def elect(self, election, keys=None):
        if election == "PREFERRED":
            _, moved = self.decide(elect_preferred(self.image, "", keys))
        else:
            moved = self.recover(keys or leaderless(self.image))
        self.finish_pass()
        return moved

    def op_elect_leaders(self, election, topic, partition):
        try:
            key = self.key(topic, partition)
        except KafkaOnSparkError as error:
            return refusal(error)
        moved = self.elect(election, [key])
        answer = {"records": len(moved)}
        return answer if moved else Answer(answer, {"error": "who-moved-is-the-answer"})

    def op_elect_leaders_all(self, election):
        moved = self.elect(election)
        return {"results": {str(self.image.name_of(key)): "NONE" for key in moved}}

    def op_leaders_imbalanced(self):
        return any(share > 0 for share in imbalance_percentages(self.image).values())

    def op_balance_leaders(self):
        moved = self.elect("PREFERRED")
        return {
            "records": [
                {
                    "topic": self.image.name_of(key).topic,
                    "partition": key.partition,
                    "leader": self.image.partition(key).leader,
                }
                for key in moved
            ]
        }

    def op_maybe_elect_unclean(self):
        self.last_count = len(self.recover())
        self.finish_pass()
        return {"records": self.last_count}

    def expected(self):
        names = {key: str(self.image.name_of(key)) for key, _ in self.image.partitions()}
        answer = {
            "topics": sorted(self.image.topic_ids),
            "isr_index": self.index("isr"),
            "elr_index": self.index("elr"),
            **{name: self.state(key) for key, name in names.items()},
        }
        left_out = {
            f"{name}.{field}": reason
            for key, name in names.items()
            for field, reason in self.epochs_left_out(key).items()
        }
        if any(name.endswith(".elr") for name in left_out):
            left_out["elr_index"] = "no-such-state"
        return Answer(answer, left_out)

    def index(self, name):
        index = {}
        for key, one in self.image.partitions():
            for each in getattr(one, name):
                index.setdefault(str(each), []).append(str(self.image.name_of(key)))
        return {each: sorted(names) for each, names in index.items()}

    def resolve(self, expectation):
        if expectation == ">0":
            return max(1, self.last_count)
        if isinstance(expectation, list) and expectation and isinstance(expectation[0], dict):
            return [{"topic": min(self.image.topic_ids), **each} for each in expectation]
        if isinstance(expectation, dict) and any(each in UNMOVED for each in expectation.values()):
            return {name: each for name, each in expectation.items() if each not in UNMOVED}
        if isinstance(expectation, dict) and expectation.get("isr") == "== replicas":
            [(_, one)] = self.image.partitions()
            replicas = list(one.replicas)
            return {**expectation, "isr": replicas, "leader": replicas[0]}
        return expectation


def refusal(error):
    """Return the answer of a decision that is refused, and so has no records."""
    return {"error": kafka_names(error), "records": 0}

"""Steps of the kind "controller" about brokers: they fail, return, shut down and drain."""

from kafka_on_spark.controller.brokers import (
    continue_draining,
    drain_broker,
    fence_broker,
    unfence_broker,
)
from kafka_on_spark.metadata.records import BrokerState
from tests.conformance.adapters.controller.controller_world import ControllerWorld
from tests.conformance.runner import Answer, CutOffError, MismatchError


class ControllerBrokers(ControllerWorld):
    """What brokers go through, and what it does to partitions."""

    def op_fence(self, broker):
        touched = {key for key, one in self.image.partitions() if broker in one.isr}
        self.decide(fence_broker(self.image, broker, "fails"))
        self.check_is(broker, eligible=False)
        self.check_eligible(())
        # Kafka elects uncleanly in the very record that fences, here that is the next step.
        self.left_out |= dict.fromkeys(self.recover(among=touched), "unclean-comes-after")
        self.finish_pass()

    def op_unfence(self, broker):
        was_draining = self.image.brokers[broker].state is BrokerState.DRAINING
        self.decide(unfence_broker(self.image, broker, "returns"))
        self.check_is(broker, eligible=not was_draining)
        self.recover()
        self.finish_pass()

    def check_is(self, broker, *, eligible):
        """Check that a step did what its name says, also where a vector asks for nothing after."""
        if self.image.is_eligible(broker) != eligible:
            raise MismatchError(f"broker {broker} is {self.image.brokers[broker].state}")

    def op_leaderships(self, broker):
        return sorted(
            str(self.image.name_of(key))
            for key, one in self.image.partitions()
            if one.leader == broker
        )

    def op_clean_shutdown(self, broker):
        """Its root is away; what it was in sync with it has."""
        self.op_fence(broker)

    def op_unclean_shutdown(self, broker):
        """It may have lost what was not flushed: here everything is, or the disk is another."""
        self.op_fence(broker)
        if not self.elr_enabled:
            return
        ones = [one for _, one in self.image.partitions()]
        if any(broker in one.elr or one.isr == {broker} for one in ones):
            raise CutOffError("brokers-are-roots")

    def op_register(self, broker, broker_epoch):
        if self.image.is_eligible(broker):
            raise CutOffError("brokers-are-roots")  # its process is another, though it answers
        self.broker_epochs[broker] = broker_epoch

    def op_heartbeat(self, broker, want_fence=False, want_shutdown=False):
        state = self.image.brokers[broker].state
        if state is BrokerState.DRAINING:
            raise CutOffError("brokers-are-roots")  # when it may go rests on what others know
        if want_shutdown and state is BrokerState.ACTIVE and not want_fence:
            return self.drain(broker)
        if want_fence:
            self.op_fence(broker)
        elif not want_shutdown:
            self.op_unfence(broker)
        return self.lives(broker, {"should_shut_down": "brokers-are-roots"})

    def lives(self, broker, left_out):
        """Return what a broker's registration says; one that has drained and is away may go."""
        state = self.image.brokers[broker].state
        is_fenced = state is BrokerState.FENCED
        answer = {
            "in_controlled_shutdown": state is BrokerState.DRAINING,
            "fenced": is_fenced,
            "should_shut_down": is_fenced,
        }
        return Answer(answer, left_out)

    def drain(self, broker):
        """Have a broker lead nothing and be in sync nowhere; one that led nothing goes at once."""
        before = dict(self.image.partitions())
        has_led = any(one.leader == broker for one in before.values())
        self.decide(drain_broker(self.image, broker, "shuts down"))
        while self.decide(continue_draining(self.image))[0]:
            pass
        after = dict(self.image.partitions())
        if any(broker in one.isr for one in after.values()):
            raise CutOffError("drained-online")
        self.left_out |= {
            key: "drained-online"
            for key, one in after.items()
            if one.partition_epoch > before[key].partition_epoch + 1
        }
        if not has_led:
            self.decide(fence_broker(self.image, broker, "drained"))
        self.finish_pass()
        return self.lives(broker, {})

    def op_set_controlled_shutdown_state_only(self, broker):
        raise CutOffError("drained-online")  # it is in sync meanwhile, and may be

    def epoch_of(self, broker):
        """Return what Kafka calls a broker's registration."""
        return self.broker_epochs.get(int(broker), 100 + int(broker))

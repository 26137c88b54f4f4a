"""The kinds of file 03: where the replicas of new partitions go.

Kafka's draws come from a generator of its own tests, or are recorded; either way they are given
to the placement, which draws nothing itself.
"""

from collections import Counter

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller.topics import BrokerRing, Stripes
from kafka_on_spark.metadata.records import BrokerState
from tests.builders import broker
from tests.conformance.runner import Adapter, kafka_names

NOBODY = -1


class Ring(Adapter):
    """One rack's brokers, handed out in turn."""

    def __init__(self, brokers):
        self.ring = BrokerRing(brokers, lambda bound: 0)
        self.is_counted = True

    def op_ring_next(self, epoch, calls=None, brokers=None):
        """Without a number of calls, the ring is asked until it has nobody left."""
        ring = self.ring if brokers is None else BrokerRing(brokers, lambda bound: 0)
        self.is_counted = calls is not None
        if self.is_counted:
            return [_or_nobody(ring.next(epoch)) for _ in range(calls)]
        return [*iter(lambda: _or_nobody(ring.next(epoch)), NOBODY), NOBODY]

    def resolve(self, expectation):
        while not self.is_counted and expectation[-2:] == [NOBODY, NOBODY]:
            expectation = expectation[:-1]
        return expectation


def _or_nobody(found):
    return NOBODY if found is None else found


class MockRandom:
    """The generator of Kafka's tests (MockRandom, on top of java.util.Random.nextInt)."""

    def __init__(self, state):
        self.state = state

    def __call__(self, bound):
        bits = self._next()
        if bound & (bound - 1) == 0:
            return (bound * bits) >> 31
        while bits - bits % bound + (bound - 1) >= 1 << 31:
            bits = self._next()
        return bits % bound

    def _next(self):
        self.state = (self.state * 2862933555777941757 + 3037000493) % (1 << 64)
        return self.state >> 33


class Recorded:
    """Draws that were recorded, as [bound, value]; another bound than Kafka's is a difference."""

    def __init__(self, draws):
        self.left = list(draws)

    def __call__(self, bound):
        assert self.left, f"Kafka draws no more, here below {bound}"
        expected, value = self.left.pop(0)
        assert bound == expected, f"Kafka draws below {expected} here, not below {bound}"
        return value


class Striped(Adapter):
    """A cluster's racks and brokers, and what is placed on them."""

    def __init__(self, rng, note, brokers, rng_state=17, draws=None):
        assert rng == "MockRandom", rng
        self.draws = Recorded(draws) if draws is not None else MockRandom(rng_state)
        self.brokers = {each["id"]: each for each in brokers}
        registered = [
            broker(
                each["id"],
                rack=each["rack"],
                state=BrokerState.FENCED if each["fenced"] else BrokerState.ACTIVE,
            )
            for each in brokers
        ]
        self.stripes = Stripes(registered, self.draws)
        self.racks = self.all_racks
        self.placed = []
        self.factor = 0
        self.refusal = None

    @property
    def all_racks(self):
        """The racks in the order in which the product has partitions begin at them."""
        return [name or None for name in self.stripes._names]

    def op_place_one(self, replication_factor):
        self.factor = replication_factor
        self.placed.append(list(self.stripes.place(replication_factor)))
        self.racks = self.all_racks
        return {"replicas": self.placed[-1]}

    def op_place(self, start_partition, num_partitions, replication_factor):
        """Kafka begins anew for each topic, so the racks are asked for as they were before."""
        self.factor, racks = replication_factor, self.racks
        try:
            for _ in range(num_partitions):
                self.op_place_one(replication_factor)
            self.racks = racks
        except KafkaOnSparkError as error:
            self.refusal = kafka_names(error)

    def expected(self):
        if isinstance(self.draws, Recorded):
            assert not self.draws.left, f"Kafka draws {self.draws.left} as well"
        pairs = Counter(",".join(str(each) for each in replicas) for replicas in self.placed)
        answer = {
            "total_brokers": self.stripes.broker_count,
            "unfenced_brokers": self.stripes.unfenced_count,
            "racks": self.racks,
            "assignments": self.placed,
            "counts": dict(pairs),
            "invariants": [],
        }
        return answer if self.refusal is None else {**answer, "error": self.refusal}

    def resolve(self, expectation):
        """Return, of invariants in words, those that do not hold."""
        if isinstance(expectation, list) and any(isinstance(each, str) for each in expectation):
            words = [each for each in expectation if each not in self.all_racks]
            if words and words[0] in INVARIANTS:
                return [each for each in words if not INVARIANTS.get(each, _never)(self)]
        return expectation


def _never(run):
    return False


def _spreads_over_racks(run):
    racks = min(run.factor, len(run.all_racks))
    return all(len({run.brokers[each]["rack"] for each in one}) == racks for one in run.placed)


def _leads_evenly(run):
    leaders = Counter(one[0] for one in run.placed)
    return {leaders[each] for each in run.brokers} == {len(run.placed) // len(run.brokers)}


INVARIANTS = {
    "broker 1 never used": lambda run: all(1 not in one for one in run.placed),
    "broker 1 always last": lambda run: all(one.index(1) == len(one) - 1 for one in run.placed),
    "no broker twice in a list": lambda run: all(len({*one}) == len(one) for one in run.placed),
    "first replica (leader) is never fenced": lambda run: (
        not any(run.brokers[one[0]]["fenced"] for one in run.placed)
    ),
    "number of distinct racks == min(replication_factor, number of racks)": _spreads_over_racks,
    "each broker leads exactly num_partitions/num_brokers partitions": _leads_evenly,
}

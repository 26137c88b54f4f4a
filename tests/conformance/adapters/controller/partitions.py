"""Kinds of files 02 and 08 about one partition: who may lead, what moves, how a record counts."""

from kafka_on_spark.base.errors import KafkaOnSparkError, NoReassignmentInProgressError
from kafka_on_spark.base.ids import KEEP, BrokerId
from kafka_on_spark.controller.election import elect_leader
from kafka_on_spark.controller.reassignment import cancel_reassignments, next_step, roles_of
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from tests.builders import KEY, elect_unclean, image_of, partition
from tests.committing import committed
from tests.conformance.runner import Adapter, Answer, CutOffError, kafka_names

NOBODY = -1
SETS = frozenset({"isr", "elr", "last_known_elr"})
EVERYONE = frozenset(BrokerId(each) for each in range(20))


def words(brokers):
    return " ".join(str(each) for each in brokers)


class AnyState(PartitionRegistration):
    """A registration in a state that ours refuse to be in, for functions that need not care."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse nothing."""


def registration(
    replicas,
    isr,
    leader=NOBODY,
    removing=(),
    adding=(),
    elr=(),
    last_known_elr=(),
    leader_epoch=0,
    partition_epoch=0,
    recovery="RECOVERED",
):
    """Return a registration of ours; states that ours can't have leave our ground."""
    if set(elr) & set(isr) or not {*isr, *elr, *adding, *removing} <= set(replicas):
        raise CutOffError("no-such-state")
    if (leader != NOBODY and leader not in isr) or set(replicas) == set(removing):
        raise CutOffError("no-such-state")
    return partition(
        words(replicas),
        words(isr),
        leader=None if leader == NOBODY else leader,
        elr=words(elr),
        adding=words(adding),
        removing=words(removing),
        epoch=leader_epoch,
        version=partition_epoch,
    )


def any_registration(
    replicas,
    isr,
    leader=NOBODY,
    removing=(),
    adding=(),
    elr=(),
    last_known_elr=(),
    leader_epoch=0,
    partition_epoch=0,
    recovery="RECOVERED",
):
    sound = partition(words(replicas), epoch=leader_epoch, version=partition_epoch)
    fields = {name: getattr(sound, name) for name in PartitionRegistration.__slots__}
    fields |= {
        "isr": frozenset(isr),
        "elr": frozenset(elr),
        "leader": None if leader == NOBODY else leader,
        "adding_replicas": tuple(adding),
        "removing_replicas": tuple(removing),
    }
    return AnyState(**fields)


def acceptable(given):
    if "only" in given:
        return frozenset(BrokerId(each) for each in given["only"])
    return EVERYONE - set(given["all_except"])


class Elections(Adapter):
    """One partition's leader, as KRaft's PartitionChangeBuilder elects it."""

    def __init__(
        self,
        partition,
        acceptable_leaders,
        min_isr,
        elr_enabled,
        use_last_known_leader,
        metadata_version,
    ):
        self.given = partition
        self.eligible = acceptable(acceptable_leaders)
        self.result = None
        known = [each for each in partition["last_known_elr"] if each in self.eligible]
        self.is_left_out = elr_enabled and use_last_known_leader and len(known) == 1

    def op_elect_leader(self, election, target_isr=None, target_replicas=None, target_elr=None):
        targets = {"isr": target_isr, "replicas": target_replicas, "elr": target_elr}
        state = {**self.given, **{k: v for k, v in targets.items() if v is not None}}
        self.is_left_out = self.is_left_out and not state["isr"] and not state["elr"]
        # The leader is asked for, not given: one out of sync leads nothing here.
        if state["leader"] not in state["isr"]:
            state["leader"] = NOBODY
        if state["isr"] and state["elr"] and not self.eligible.intersection(state["isr"]):
            raise CutOffError("last-member-stays")
        one = any_registration(**state)
        if election == "UNCLEAN":
            self.result = elect_unclean(one, self.eligible)
        else:
            is_preferred = election == "PREFERRED"
            self.result = elect_leader(one, self.eligible, preferred=is_preferred), False

    def expected(self):
        leader, is_unclean = self.result
        answer = {"leader": NOBODY if leader is None else leader, "unclean": is_unclean}
        if self.is_left_out and (leader is None or is_unclean):
            return Answer(answer, dict.fromkeys(answer, "no-last-known-leader"))
        return answer


class Merging(Adapter):
    """A change record, merged into a registration."""

    SETS = SETS

    def __init__(self, partition=None):
        self.registered = None if partition is None else any_registration(**partition)

    def op_merge(self, record):
        given = dict(record)
        if "isr" in given:
            given["isr"] = frozenset(given["isr"])
        if "elr" in given:
            given["elr"] = frozenset(given["elr"])
        if given.get("leader", KEEP) == NOBODY:
            given["leader"] = None
        names = {"adding": "adding_replicas", "removing": "removing_replicas"}
        change = {names.get(k, k): tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        for name in ("recovery", "last_known_elr"):
            change.pop(name, None)
        if "replicas" in change:
            count = len(change["replicas"])
            change["replica_uuids"] = change["directories"] = (None,) * count
        self.registered = self.registered.merge(PartitionChange(**change))
        return state_of(self.registered)

    def expected(self):
        return {} if self.registered is None else state_of(self.registered)


def state_of(one):
    """Return a registration in Kafka's words; members of sets in ascending order."""
    return {
        "replicas": list(one.replicas),
        "isr": sorted(one.isr),
        "elr": sorted(one.elr),
        "leader": NOBODY if one.leader is None else one.leader,
        "leader_epoch": one.leader_epoch,
        "partition_epoch": one.partition_epoch,
        "adding": list(one.adding_replicas),
        "removing": list(one.removing_replicas),
    }


class ReassignmentPlan(Adapter):
    """Which brokers come and go."""

    def __init__(self, current):
        self.current = current
        self.roles = None

    def op_plan_reassignment(self, target):
        self.roles = roles_of(self.current, target)

    def expected(self):
        names = ("replicas", "adding", "removing")
        return {name: list(getattr(self.roles, name)) for name in names}


class ReassignmentCompletion(Adapter):
    """Whether a reassignment is done with an ISR, and what it leaves."""

    SETS = SETS

    def __init__(self, removing=(), adding=(), replicas=()):
        self.moving = {"removing": removing, "adding": adding, "replicas": replicas}
        self.answer = {}

    def op_in_progress(self, removing, adding):
        replicas = [*removing, *adding, 100]
        return registration(replicas, replicas, removing=removing, adding=adding).is_reassigning

    def op_maybe_complete(self, isr):
        one = any_registration(isr=isr, leader=isr[0] if isr else NOBODY, **self.moving)
        rows = 0
        while (step := next_step(one, EVERYONE)) is not None:
            one = one.merge(step[0])
            rows += 1
        self.answer = {"complete": rows > 0 and not one.is_reassigning, **state_of(one)}

    def op_original_replicas(self):
        one = registration(isr=self.moving["replicas"], **self.moving)
        self.answer = {"replicas": list(one.original_replicas)}

    def expected(self):
        return self.answer


class ReassignmentRevert(Adapter):
    SETS = SETS

    def __init__(self, partition):
        self.given = dict(partition)
        self.answer = {}

    def op_revert(self):
        if self.given["leader"] not in self.given["isr"]:  # it says nothing about the revert
            self.given["leader"] = NOBODY
        one = any_registration(**self.given)
        image = image_of(one, ids=words(EVERYONE))
        try:
            done = cancel_reassignments(image, [KEY], cause="")
        except NoReassignmentInProgressError:
            self.answer = {"unclean": False, **state_of(one)}
            return
        except KafkaOnSparkError as error:
            # Of those that stay nobody is in sync: refused, where Kafka elects uncleanly.
            self.answer = {"unclean": True, "error": kafka_names(error)}
            return
        after = committed(image, done.records).partition(KEY)
        self.answer = {"unclean": False, **state_of(after)}

    def expected(self):
        if self.answer["unclean"]:
            return Answer(self.answer, dict.fromkeys(("isr", "replicas"), "cancel-keeps-records"))
        return self.answer

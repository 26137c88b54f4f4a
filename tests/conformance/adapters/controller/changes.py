"""Kinds of file 02 about what one change of a partition leads to: PartitionChangeBuilder's.

Kafka's builder is told everything at once. Here each decision makes its own change; what a vector
asks for is decided in this order: the move, the ISR, the rows of the move, the election.
"""

from dataclasses import replace

from kafka_on_spark.base.ids import KEEP, LOST, DirectoryId, Offset
from kafka_on_spark.controller.election import change_of_isr, elect_by_inspections, elect_preferred
from kafka_on_spark.controller.reassignment import (
    cancel_reassignments,
    next_step,
    roles_of,
    start_reassignments,
)
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import KEY, image_of, inspection
from tests.conformance.adapters.controller.moves import start_or_replace
from tests.conformance.adapters.controller.partitions import (
    NOBODY,
    SETS,
    acceptable,
    registration,
    state_of,
    words,
)
from tests.conformance.runner import Adapter, Answer, CutOffError

EVERYONE = range(20)
UNKNOWN = {"last_known_elr": "no-last-known-leader"}


class PartitionChanges(Adapter):
    """A partition, and what is decided about it one after the other."""

    SETS = SETS

    def __init__(
        self,
        partition,
        acceptable_leaders,
        min_isr,
        elr_enabled,
        use_last_known_leader,
        metadata_version,
    ):
        if partition["elr"] and not elr_enabled:
            raise CutOffError("elr-as-in-kraft")
        self.before = self.one = registration(**partition)
        self.isr_in_order, self.elr_in_order = partition["isr"], partition["elr"]
        self.last_known_elr = partition["last_known_elr"] if use_last_known_leader else []
        self.is_elr_enabled = elr_enabled
        self.eligible = acceptable(acceptable_leaders)
        # At a minimum of one nobody is eligible beside the ISR, as in Kafka without ELRs.
        self.min_isr = min_isr if elr_enabled else 1
        self.is_old = is_before(metadata_version, (3, 6))
        self.knows_no_recovery = is_before(metadata_version, (3, 2))
        self.forgets_known = bool(partition["last_known_elr"]) and not use_last_known_leader
        self.commits = self.leaderships = 0
        self.recovery = partition["recovery"]
        self.left_out = dict(UNKNOWN)
        self.moved_directories = self.is_order_told = self.is_recovering = False
        self.has_elected_another = False

    # What the cluster looks like, and commits to it

    def image(self, eligible):
        one = replace(self.one, high_watermark=Offset(1))
        fenced = words(set(EVERYONE) - set(eligible))
        configs = {"min.insync.replicas": str(self.min_isr)}
        return image_of(one, ids=words(EVERYONE), fenced=fenced, configs=configs)

    def commit(self, change):
        if change is not None:
            self.one = self.one.merge(change)
            self.commits += 1
            self.leaderships += change.leader is not KEEP

    def decided(self, result):
        for record in result.records:
            self.commit(record.change)

    def leave_out(self, reason, *names):
        self.left_out |= dict.fromkeys(names, reason)

    # The steps of one build

    def op_build_change(
        self,
        election="ONLINE",
        target_isr=None,
        target_replicas=None,
        target_removing=None,
        target_adding=None,
        unclean_shutdown=(),
        target_recovery=None,
        set_directories=None,
    ):
        if "RECOVERING" in (self.recovery, target_recovery) or self.knows_no_recovery:
            self.leave_out("no-recovery-state", "recovery")  # of a leadership before this one
        self.is_recovering = target_recovery not in (None, self.recovery)
        self.check_ground(target_isr, election)
        self.shut_down_uncleanly(unclean_shutdown, target_isr)
        self.place(set_directories or {})
        self.move(target_isr, target_replicas, target_removing, target_adding)
        self.change_isr(target_isr)
        self.advance(election)
        self.elect(election)

    def check_ground(self, target_isr, election):
        target = self.one.isr if target_isr is None else frozenset(target_isr)
        if target or not self.one.isr & self.eligible:
            return
        # Members leave that could lead: here they are away, and lead when they are back.
        if self.is_elr_enabled or election == "UNCLEAN":
            raise CutOffError("last-member-stays")
        self.eligible -= self.one.isr

    def shut_down_uncleanly(self, brokers, target_isr):
        """What was not in sync when its broker went down may be incomplete: it is lost."""
        kept = self.one.isr if target_isr is None else frozenset(target_isr)
        directories = tuple(
            LOST if each in brokers and each not in kept else self.one.directory_of(each)
            for each in self.one.replicas
        )
        self.before = self.one = replace(self.one, directories=directories)

    def place(self, directories):
        if not directories:
            return
        made = tuple(
            DirectoryId(directories.get(str(each), self.one.directory_of(each)))
            for each in self.one.replicas
        )
        self.commit(PartitionChange(directories=made))
        self.moved_directories = True

    def move(self, isr, replicas, removing, adding):
        one = self.one
        wanted = (
            one.replicas if replicas is None else tuple(replicas),
            one.removing_replicas if removing is None else tuple(removing),
            one.adding_replicas if adding is None else tuple(adding),
        )
        if wanted == (one.replicas, one.removing_replicas, one.adding_replicas):
            return
        if one.is_reassigning and wanted == (one.original_replicas, (), ()):
            if not one.isr.intersection(one.original_replicas):
                raise CutOffError("cancel-keeps-records")
            self.decided(cancel_reassignments(self.image(self.eligible), [KEY], cause=""))
            return
        target = [each for each in wanted[0] if each not in wanted[1]]
        roles = roles_of(one.replicas, target)
        if not target or wanted != (roles.replicas, roles.removing, roles.adding):
            raise CutOffError("moves-have-a-target")
        self.decided(start_or_replace(self.image(EVERYONE), KEY, target, lambda: "new"))

    def change_isr(self, target_isr):
        isr = self.one.isr if target_isr is None else frozenset(target_isr)
        if not isr <= set(self.one.replicas):
            raise CutOffError("no-such-state")
        leader = self.one.leader
        stays = leader in isr and leader in self.eligible
        change = change_of_isr(
            self.one,
            isr,
            leader=leader if stays else None,
            min_isr=self.min_isr,
            eligible=self.eligible,
            suspects=frozenset(),
        )
        self.commit(change)
        if isr and self.one.leader not in (None, *isr):
            raise CutOffError("last-member-stays")  # and the ELR leads meanwhile
        self.has_elected_another = self.one.isr != isr
        if not isr and self.one.leader is None and self.before.elr & self.eligible:
            raise CutOffError("last-member-stays")  # with enough in sync, nobody else is eligible
        if not isr and self.one.leader is None:
            self.leave_out("last-member-stays", "isr", "elr", "record", "partition_epoch")
        lists = [*(target_isr or self.isr_in_order), *sorted(self.elr_in_order)]
        if lists != [*self.isr_in_order, *self.elr_in_order]:
            self.is_order_told = True
        if self.is_old and not isr >= self.before.isr:
            self.leave_out("epochs-advance-with-a-named-leader", "leader_epoch", "record")

    def advance(self, election):
        while (step := next_step(self.one, self.eligible)) is not None:
            if self.has_elected_another:
                raise CutOffError("moved-in-rows")  # who leads now may be all of the target
            self.commit(step[0])
        if self.is_elr_enabled and not set(self.one.replicas) >= set(self.before.replicas):
            self.leave_out("no-such-state", "elr", "record")  # Kafka's may be no replicas
        if self.one.is_reassigning and self.one.isr.issuperset(self.one.target_replicas):
            if self.one.leader is not None:
                raise CutOffError("moves-end-under-a-leader")
            if election == "UNCLEAN":
                raise CutOffError("moves-end-under-a-leader")
            names = set(state_of(self.one)) - {"leader"}
            self.leave_out("moves-end-under-a-leader", "record", *names)

    def elect(self, election):
        known = [each for each in self.last_known_elr if each in self.eligible]
        if self.one.leader is None and self.is_elr_enabled and len(known) == 1:
            raise CutOffError("no-last-known-leader")
        unmade = [each for each in self.one.replicas if not self.one.is_created(each)]
        if self.one.leader is None and election == "UNCLEAN" and self.eligible.intersection(unmade):
            raise CutOffError("nothing-never-leads")
        if election == "PREFERRED":
            self.decided(elect_preferred(self.image(self.eligible), ""))
        elif election == "UNCLEAN" and self.one.leader is None:
            if self.one.elr & self.eligible:
                raise CutOffError("last-member-stays")  # and one of these leads next
            image = self.image(self.eligible)
            one = image.partition(KEY)
            nothing = [inspection(one, each) for each in one.replicas]
            self.decided(elect_by_inspections(image, nothing, forced=frozenset({KEY})))
            if self.one.leader == self.before.leader and self.one.leader is not None:
                raise CutOffError("no-such-state")  # Kafka's leads on outside of its ISR

    def expected(self):
        if self.is_recovering and not self.commits:
            self.leave_out("no-recovery-state", "record", "partition_epoch")
        if self.forgets_known and not self.commits:  # Kafka's change says that, and no more
            self.leave_out("no-last-known-leader", "record", "partition_epoch")
        if self.commits > 1:
            self.leave_out("decisions-make-their-changes", "partition_epoch")
        if self.leaderships > 1:
            self.leave_out("decisions-make-their-changes", "leader_epoch", "record")
        is_kept = (self.one.isr, self.one.elr) == (self.before.isr, self.before.elr)
        if self.is_order_told and (is_kept or self.one.isr == self.before.isr):
            self.leave_out("isr-is-a-set", "record", *([] if self.commits else ["partition_epoch"]))
        after = self.state(self.one)
        return Answer({"record": self.record(after), "after": after}, self.left_out)

    def state(self, one):
        """Return a partition as Kafka says it; it recovers once its leader is an unclean one."""
        is_clean = one.unclean_generation == 0
        recovery = "RECOVERED" if is_clean else "RECOVERING"
        return {**state_of(one), "recovery": recovery}

    def record(self, after):
        """Return what changed; a leader is named where a leadership begins."""
        if self.commits == 0:
            return None
        before = self.state(self.before)
        epochs = ("leader_epoch", "partition_epoch")
        changed = {k: v for k, v in after.items() if k not in epochs and v != before[k]}
        if self.one.leader_epoch != self.before.leader_epoch:
            changed["leader"] = after["leader"]
        if self.moved_directories:
            changed["directories_changed"] = True
        return changed


class LeaderEpochBumps(Adapter):
    """Whether a change begins a leadership by itself, whichever replica could be elected."""

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
        self.is_old = is_before(metadata_version, (3, 6))
        self.leaderships = 0
        self.left_out = {}

    def op_leader_epoch_bump_needed(self, target_isr=None, target_replicas=None):
        if target_replicas == []:
            raise CutOffError("moves-have-a-target")
        isr = self.given["isr"] if target_isr is None else target_isr
        replicas = self.given["replicas"] if target_replicas is None else target_replicas
        self.change_isr(isr)
        self.move(replicas)
        is_smaller = not set(isr) >= set(self.given["isr"])
        if self.is_old and is_smaller and not self.leaderships:
            self.left_out = {"bump": "epochs-advance-with-a-named-leader"}

    def change_isr(self, isr):
        """Ask what an ISR does to a leader that stays, or to none."""
        # A vector may ask for members that are no replicas yet.
        replicas = dict.fromkeys([*self.given["replicas"], *isr])
        leader = self.given["leader"] if self.given["leader"] in isr else NOBODY
        one = registration([*replicas], {*self.given["isr"], *isr}, leader)
        change = change_of_isr(
            one,
            frozenset(isr),
            leader=one.leader,
            min_isr=1,
            eligible=frozenset(),
            suspects=frozenset(),
        )
        self.leaderships += change is not None and change.leader is not KEEP

    def move(self, target):
        """Ask what another list of replicas does once all of them are in sync."""
        replicas = self.given["replicas"]
        stays = next((each for each in replicas if each in target), replicas[0])
        image = image_of(registration(replicas, replicas, stays), ids=words(EVERYONE))
        started = start_reassignments(image, {KEY: target}, new_uuid=lambda: "new", cause="")
        one = image.partition(KEY)
        for record in started.records:
            one = one.merge(record.change)
        one = replace(one, isr=frozenset(one.replicas))
        while (step := next_step(one, frozenset(EVERYONE))) is not None:
            self.leaderships += step[0].leader is not KEEP
            one = one.merge(step[0])

    def expected(self):
        return Answer({"bump": self.leaderships > 0}, self.left_out)


def is_before(metadata_version, version):
    """Return whether a metadata version ("3.5-IV2") is older than a `version` such as (3, 6)."""
    return tuple(map(int, metadata_version.split("-")[0].split("."))) < version

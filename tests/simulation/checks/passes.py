"""What must hold of the passes that appends run where nobody controls the cluster (S1-S9).

A process knows little; here is kept what was true: which process could reach which root, and since when.
Such a pass must have had its reasons in that, and must harm nobody else.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafka_on_spark.base.errors import KafkaOnSparkError, RootAccessDeniedError
from kafka_on_spark.base.ids import KEEP, BrokerId, PartitionKey
from kafka_on_spark.controller.brokers import SESSIONS_UNDISPUTED, is_of_append
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerState,
    MetadataBatch,
    PartitionChangeRecord,
)
from kafka_on_spark.produce.append import AppendRequest, append_records
from tests.simulation.checks.ledger import Ledger, require
from tests.simulation.plan import Plan
from tests.simulation.programs.clients import split
from tests.simulation.programs.cluster import TOPIC
from tests.simulation.world.scheduler import Node

if TYPE_CHECKING:
    from tests.simulation.checks.checker import Checker
    from tests.simulation.programs.clients import Values
    from tests.simulation.world.processes import Driver
    from tests.simulation.world.world import World

SLACK_MS = 1500
"""What an append takes apart from waiting, in virtual time: each of its calls takes 2 ms."""


class Passes:
    def __init__(
        self, plan: Plan, world: "World", ledger: Ledger, nodes: Callable[[], Sequence[Node]]
    ) -> None:
        self._plan = plan
        self._world = world
        self._ledger = ledger
        self._nodes = nodes
        self._reached: dict[tuple[str, BrokerId], list[list[float]]] = {}
        self._reaching: dict[tuple[str, BrokerId], list[float]] = {}
        self._lease_at_ms = 0.0
        self._decided_ms = 0.0
        self._raised: list[tuple[float, str, set[BrokerId]]] = []
        self._taken_out: dict[tuple[PartitionKey, BrokerId], bool] = {}
        self._readmitted: dict[tuple[PartitionKey, BrokerId], tuple[float, str]] = {}

    @property
    def _now_ms(self) -> float:
        return self._world.scheduler.now_ms

    def sample(self) -> None:
        """Note which process reaches which root now."""
        if not self._plan.is_uncontrolled:
            return
        now_ms = self._now_ms
        roots = [(each, self._is_well(each)) for each in self._world.disks.roots.values()]
        for node in self._nodes():
            if not node.name.startswith(("client", "survivor")):
                continue
            for root, is_well in roots:
                pair = (node.name, root.broker_id)
                if not is_well or (node.cut_off and not _is_let_in(node, root)):
                    self._reaching.pop(pair, None)
                elif (span := self._reaching.get(pair)) is not None:
                    span[1] = now_ms
                else:
                    self._reaching[pair] = span = [now_ms, now_ms]
                    self._reached.setdefault(pair, []).append(span)

    def _is_well(self, root: Any) -> bool:
        broker = self._ledger.image.brokers.get(root.broker_id)
        is_well = root.can_read and root.can_write and not root.is_full and not root.failing_calls
        return bool(is_well and broker is not None and broker.directory_id == root.directory_id)

    def on_metadata(
        self, before: MetadataImage, after: MetadataImage, batch: MetadataBatch
    ) -> None:
        """Check one commit to the metadata log, and take note of it."""
        task = self._world.scheduler.current
        author = "nobody" if task is None else task.node.name
        is_small = is_of_append(batch)
        if (
            is_small
            and self._plan.is_uncontrolled
            and task is not None
            and author.startswith(("client", "survivor"))
        ):
            self._decided_ms = task.stood_ms  # a process that is frozen after that can't know
            self._check(before, after, batch, task.node)
        if after.controller != before.controller:
            self._lease_at_ms = self._now_ms
        for key, new in after.partitions():
            old = before.partition(key)
            if old is not None and old is not new:
                self._note_change(key, old, new, author, is_small=is_small)

    def _note_change(
        self,
        key: PartitionKey,
        old: PartitionRegistration,
        new: PartitionRegistration,
        author: str,
        *,
        is_small: bool,
    ) -> None:
        if new.high_watermark > old.high_watermark and new.leader is not None:
            self._raised.append((self._now_ms, author, {new.leader} & new.isr))
        for broker_id in old.isr - new.isr:
            self._taken_out[key, broker_id] = is_small
        for broker_id in new.isr - old.isr:
            if self._taken_out.get((key, broker_id)):
                self._readmitted[key, broker_id] = (self._now_ms, author)

    def _check(
        self, before: MetadataImage, after: MetadataImage, batch: MetadataBatch, node: Node
    ) -> None:
        held = before.controller
        if held is not None and held.controller_id is not None:
            lease_ms = before.settings().integer("controller.lease.ms")
            unseen_ms = self._decided_ms - self._lease_at_ms
            require(unseen_ms >= lease_ms, "S1 no append decides under a live lease", f"{held}")
        for record in batch.records[1:-1]:
            if isinstance(record, BrokerChangeRecord):
                self._check_return(before, after, record, node)
                continue
            is_change = isinstance(record, PartitionChangeRecord)
            require(is_change, "S2 an append gives up nothing", f"{record}")
            assert isinstance(record, PartitionChangeRecord)
            is_clean = record.change.unclean_generation is KEEP
            require(is_clean, "S2 an append gives up nothing", f"{record}")
            key = record.key
            is_waited_for = (key.topic_id, key.partition) in node.waits_for
            require(is_waited_for, "S3 only what is waited for is decided", f"{record}")
            self._check_change(before, after, key, node)

    def _check_return(
        self,
        before: MetadataImage,
        after: MetadataImage,
        record: BrokerChangeRecord,
        node: Node,
    ) -> None:
        """Check that a broker is fenced no more only to lead what nobody led: it answers then."""
        broker_id, is_back = record.broker_id, record.broker_state is BrokerState.ACTIVE
        require(is_back, "S2 an append gives up nothing", f"{record}")
        was_fenced = before.brokers[broker_id].state is BrokerState.FENCED
        leads = any(
            new is not None and new.leader == broker_id and old.leader is None
            for key, old in before.partitions()
            if old is not (new := after.partition(key))
        )
        require(was_fenced and leads, "S9 a returning broker leads", f"{record}")
        self._check_answers([broker_id], node, f"{record}")

    def _check_change(
        self, before: MetadataImage, after: MetadataImage, key: PartitionKey, node: Node
    ) -> None:
        old, new = before.partition(key), after.partition(key)
        assert old is not None, "it was decided on"
        assert new is not None, "it is still there"
        name = f"{key.partition} by {node.name}: {sorted(old.isr)} to {sorted(new.isr)}"
        is_enough = new.isr == old.isr or len(new.isr) >= min(self._plan.min_isr, len(new.replicas))
        require(is_enough, "S4 the ISR keeps its minimum", name)
        require(new.leader is not None, "S4 the ISR keeps its minimum", f"nobody leads {name}")
        for broker_id in old.isr - new.isr:
            self._check_silent(key, broker_id, node)
        self._check_answers(new.isr, node, name)

    def _check_answers(self, broker_ids: Iterable[BrokerId], node: Node, name: str) -> None:
        recently = self._decided_ms - self._plan.session_ms / 2
        for broker_id in broker_ids:
            spans = self._reached.get((node.name, broker_id), [])
            answers = bool(spans) and spans[-1][1] >= recently
            require(answers, "S5 remaining brokers answer", f"{broker_id} of {name}")

    def _check_silent(self, key: PartitionKey, broker_id: BrokerId, node: Node) -> None:
        """Check that a broker may count as silent for the process that took its replica out."""
        now_ms, session_ms = self._decided_ms, self._plan.session_ms
        begin_ms = now_ms - session_ms
        spans = self._reached.get((node.name, broker_id), [])
        reached_ms = sum(max(0.0, min(end, now_ms) - max(start, begin_ms)) for start, end in spans)
        require(
            reached_ms <= session_ms * 2 / 3,
            "S6 silent over all of its session",
            f"{broker_id} was reached for {reached_ms} of {session_ms} ms by {node.name}",
        )
        heard = [each for each in self._raised if each[0] > begin_ms and broker_id in each[2]]
        require(not heard, "S7 no other process has heard of it", f"{broker_id}: {heard}")
        at_ms, author = self._readmitted.get((key, broker_id), (float("-inf"), node.name))
        is_disputed = author != node.name and now_ms - at_ms < SESSIONS_UNDISPUTED * session_ms
        require(
            not is_disputed, "S8 no pass takes out again what another readmitted", f"{broker_id}"
        )


def _is_let_in(node: Node, root: Any) -> bool:
    # A process that is refused reaches the root: the root is well, and the process is told so.
    return node.cut_off.get(root.url) in (None, RootAccessDeniedError)


def append_without_a_disk(
    driver: "Driver", checker: "Checker", values: "Values", plan: Plan, *, is_full: bool = False
) -> None:
    """L6: with nobody about and one disk gone, an append is answered by the session and a little
    more; without the session if the disk is only full. It is tried where what is left of the ISR is
    enough."""
    # No process takes out again what others have readmitted lately.
    driver.clock.sleep_ms((SESSIONS_UNDISPUTED + 1) * plan.session_ms)
    image = driver.metadata.catch_up()
    partitions = image.topic(TOPIC).partitions
    numbers = [
        number
        for number, partition in partitions.items()
        if partition.leader is not None
        and len(partition.isr) > plan.min_isr
        and all(partition.is_created(each) and image.is_eligible(each) for each in partition.isr)
    ]
    if not numbers:
        return
    leader = partitions[numbers[0]].leader
    assert leader is not None
    root = driver.world.disks.root_of(leader)
    root.is_nearly_full = is_full
    root.can_read = root.can_write = is_full
    taken = values.take(1)
    while numbers[0] not in split([taken], len(partitions)):
        taken = values.take(1)
    checker.ledger.invoked.update(taken)
    driver.node.waits_for = {(image.topic_ids[TOPIC], numbers[0])}
    limit_ms = SLACK_MS + (0 if is_full else plan.session_ms)
    if not is_full and image.controller is not None and image.controller.controller_id is not None:
        limit_ms += image.settings().integer("controller.lease.ms")
    began_ms = driver.clock.monotonic_ms()
    try:
        append_records(
            driver.process,
            AppendRequest(topic=TOPIC),
            lambda order: driver.stage(order, {numbers[0]: [taken]}),
        )
    except KafkaOnSparkError as error:
        require(False, "L6 an append goes on without a disk", f"{numbers[0]}: {error}")
    took_ms = driver.clock.monotonic_ms() - began_ms
    said = f"{numbers[0]}: {took_ms} ms, {limit_ms} at most"
    require(took_ms <= limit_ms, "L6 an append goes on without a disk", said)

"""Tables of replicas: which are created and recorded, and what the cleaner lists and removes."""

from dataclasses import replace
from itertools import count, pairwise
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import (
    CorruptLogError,
    HistoryExpiredError,
    NotControllerError,
)
from kafka_on_spark.base.ids import LOST, PartitionKey, TopicId
from kafka_on_spark.controller.brokers import fence_broker, state_record, unfence_broker
from kafka_on_spark.controller.election import recreate_lost
from kafka_on_spark.controller.replica_tables import (
    REMOVALS_AT_ONCE,
    CreateReplicaOrder,
    FoundTable,
    Incarnation,
    TableRemoval,
    create_replica_task,
    list_task,
    plan_creations,
    record_created,
    remove_task,
    times_unassigned,
)
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    BrokerState,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    RefusedWrite,
    RemovePartitionRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
)
from tests.builders import (
    KEY,
    TOPIC,
    TOPIC_ID,
    address,
    brokers,
    disk,
    image_of,
    partition,
    uuid_on,
)
from tests.committing import replay
from tests.fakes import FakeClock, MemoryMetadataLog, MemoryReplicaStore, MemoryRoots
from tests.nodes import node_of

OTHER_ID = TopicId("2" * 32)

SECOND = PartitionKey(TOPIC_ID, 1)


def made(broker_id, key=KEY):
    return Incarnation(key, uuid_on(broker_id))


def topic(topic_id=TOPIC_ID):
    return TopicRecord(topic=TOPIC, topic_id=topic_id)


def assigned(text, key=KEY):
    return PartitionRecord(
        topic=TOPIC, topic_id=key.topic_id, partition=key.partition, registration=partition(text)
    )


def changed(key=KEY, text=None):
    """Return a change of a partition's replicas, or of its ISR only."""
    if text is None:
        change = PartitionChange(isr=frozenset({1}))
    else:
        everyone = brokers(text)
        change = PartitionChange(
            replicas=everyone,
            replica_uuids=tuple(uuid_on(each) for each in everyone),
            directories=tuple(disk(each) for each in everyone),
            isr=frozenset(everyone),
            leader=everyone[0],
        )
    return PartitionChangeRecord(
        topic=TOPIC, topic_id=key.topic_id, partition=key.partition, change=change,
        leader_epoch=0, partition_epoch=0,
    )  # fmt: skip


def partition_gone(key=KEY):
    return RemovePartitionRecord(topic=TOPIC, topic_id=key.topic_id, partition=key.partition)


UNASSIGNED = RemoveTopicRecord(topic_id=TOPIC_ID)

OTHER_GONE = RemoveTopicRecord(topic_id=OTHER_ID)

NAMESAKE = (topic(OTHER_ID), assigned("1 2", PartitionKey(OTHER_ID, 0)))

# fmt: off
LIVES = [  # a list of commits at times 1, 2, 3 …       replica → when it was taken away
    pytest.param([[topic(), assigned("1 2")]],                                    {},                                    id="all-are-assigned"),
    pytest.param([[topic(), assigned("1 2")], [UNASSIGNED]],                            {made(1): 2, made(2): 2},              id="topic-deleted"),
    pytest.param([[topic(), assigned("1 2")], [changed()], [changed()]],          {},                                    id="changes-that-name-no-replicas"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2")]],             {made(1): 2},                          id="moved-away"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2 1")], [changed(text="1 2")]], {made(3): 3},             id="cancelled"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2")], [UNASSIGNED]],     {made(1): 2, made(2): 3, made(3): 3},  id="moved-then-deleted"),
    pytest.param([[topic(), assigned("1"), assigned("2", SECOND)], [partition_gone(SECOND)]], {made(2, SECOND): 2},      id="partition-removed"),
    pytest.param([[topic(), assigned("1"), assigned("1", SECOND)], [partition_gone(SECOND)], [UNASSIGNED]], {made(1): 3, made(1, SECOND): 2}, id="partition-removed-then-topic"),
    pytest.param([[topic(), assigned("1")], [*NAMESAKE], [UNASSIGNED]],                 {made(1): 3},                          id="another-topic-stays"),
    pytest.param([[topic(), assigned("1")], [*NAMESAKE], [OTHER_GONE]],           {made(1, PartitionKey(OTHER_ID, 0)): 3, made(2, PartitionKey(OTHER_ID, 0)): 3}, id="another-topic-goes"),
    # What one commit assigns and unassigns again has no table.
    pytest.param([[topic(), assigned("1 2")], [changed(text="1 2 3"), changed(text="1 2")]], {},                         id="came-and-went-in-one-commit"),
    pytest.param([[topic(), assigned("1"), UNASSIGNED]],                                {},                                    id="within-one-commit"),
]

# fmt: on
EVERYTHING = frozenset(
    made(each, key) for each in (1, 2, 3, 4) for key in (KEY, SECOND, PartitionKey(OTHER_ID, 0))
)


def batches(commits):
    offset = 0
    for time_ms, records in enumerate(commits, 1):
        yield MetadataBatch(
            base_offset=offset, stamp=Stamp(time_ms=time_ms), records=tuple(records)
        )
        offset += len(records)


@pytest.mark.parametrize("commits, expected", LIVES)
def test_times_unassigned(commits, expected):
    for cuts in every_way_to_cut(len(commits)):
        pieces = pieces_of(commits, cuts)
        assert times_unassigned(pieces, EVERYTHING) == expected, cuts
        for making in EVERYTHING:  # each asked for alone
            alone = times_unassigned(pieces, frozenset({making}))
            assert alone == {each: at for each, at in expected.items() if each == making}


def every_way_to_cut(count):
    """Return every choice of places where a snapshot may lie among so many commits."""
    ways = [[]]
    for place in range(1, count):
        ways += [[*each, place] for each in ways]
    return ways


def pieces_of(commits, cuts):
    """Return the log between snapshots, the newest piece first, each with the image before it."""
    log = list(batches(commits))
    ends = [0, *cuts, len(log)]
    return [
        (MetadataImage().replay(*log[:start]), log[start:end]) for start, end in pairwise(ends)
    ][::-1]


DELAY_MS = 3_600_000

GONE = RemoveTopicRecord(topic_id=TOPIC_ID)


class World:
    """Three brokers with a topic's tables, and what a cleaner asks of them."""

    def __init__(self, partition_count=1):
        self.clock = FakeClock()
        self.log = MemoryMetadataLog()
        self.metadata = MetadataService(self.log, self.clock, random=lambda: 0.0)
        image = image_of(*(partition("1 2 3") for _ in range(partition_count)))
        self.commit(*snapshot_records(image))
        self.tables = {
            each: [self.table(each, number) for number in range(partition_count)]
            for each in (1, 2, 3)
        }
        self.failing = set()
        self.listed = []
        self.before_removal = lambda: None
        self.while_listing = lambda: None
        self.cleaner = self.new_cleaner()

    def new_cleaner(self, log=None):
        metadata = MetadataService(log or self.log, self.clock, random=lambda: 0.0)
        given = {list_task: self.run_lists, remove_task: self.run_removes}
        return TableRemoval(node_of(metadata, self.clock, given=given))

    def table(self, broker_id, number, uuid=None):
        uuid = uuid or uuid_on(broker_id)
        path = f"memory://{broker_id}/{number}-{uuid}"
        replica = Incarnation(PartitionKey(TOPIC_ID, number), uuid)
        return FoundTable(broker_id=broker_id, path=path, replica=replica)

    def commit(self, *records):
        self.metadata.catch_up()
        self.metadata.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)

    def decide(self, decision):
        self.metadata.catch_up()
        self.metadata.submit(decision, timeout_ms=1000)

    def run_lists(self, orders):
        self.listed.append({each.broker.broker_id: each.topic_ids for each in orders})
        self.while_listing()
        return [
            "no answer"
            if each.broker.broker_id in self.failing
            else [
                table
                for table in self.tables[each.broker.broker_id]
                if each.topic_ids is None or table.replica.key.topic_id in each.topic_ids
            ]
            for each in orders
        ]

    def run_removes(self, orders):
        self.before_removal()
        answers = []
        for order in orders:
            is_failing = order.table.broker_id in self.failing
            if not is_failing:
                self.tables[order.table.broker_id].remove(order.table)
            answers.append("no answer" if is_failing else None)
        return answers

    def clean(self, cleaner=None, check=lambda image: None):
        """Return how many were removed, and what was listed for it."""
        self.listed.clear()
        return (cleaner or self.cleaner).clean(check), list(self.listed)


@pytest.fixture
def world():
    return World()


ALL = {1: None, 2: None, 3: None}

TOPIC_ONLY = dict.fromkeys(ALL, frozenset({TOPIC_ID}))


def test_what_was_seen_to_go_is_removed_once_its_time_is_over(world):
    world.clean()
    world.commit(GONE)

    assert world.clean() == (0, [])
    world.clock.advance(DELAY_MS - 1)
    assert world.clean() == (0, [])
    world.clock.advance(1)
    assert world.clean() == (3, [TOPIC_ONLY])
    assert world.clean() == (0, [])
    assert world.tables == {1: [], 2: [], 3: []}


def test_a_later_process_learns_from_the_log_since_when_a_table_is_unassigned(world):
    world.commit(GONE)
    world.clock.advance(DELAY_MS - 1000)
    late = world.new_cleaner()

    assert world.clean(late) == (0, [ALL])
    world.clock.advance(1000)
    assert world.clean(late) == (3, [TOPIC_ONLY])


def test_a_root_that_can_not_be_listed_is_asked_again(world):
    world.failing = {2}
    assert world.clean() == (0, [ALL])
    assert world.clean() == (0, [{2: None}])
    world.failing = set()
    assert world.clean() == (0, [{2: None}])
    assert world.clean() == (0, [])


def test_what_is_unassigned_goes_from_a_root_that_is_fenced_since_it_is_full(world):
    broker = world.metadata.catch_up().brokers[2]
    full = state_record(broker, BrokerState.FENCED, "why", RefusedWrite(1, ("h",)))
    world.commit(full, GONE)
    world.clock.advance(DELAY_MS)

    assert world.clean() == (3, [ALL])


def test_what_the_log_has_never_heard_of_stays(world):
    world.tables[1].append(world.table(1, 0, "unheard of"))
    world.tables[2].append(world.table(2, 9, "unheard of"))
    world.clock.advance(DELAY_MS)

    assert world.clean()[0] == 0
    world.commit(RemovePartitionRecord(topic=TOPIC, topic_id=TOPIC_ID, partition=0))
    world.clock.advance(DELAY_MS)
    assert world.clean() == (3, [TOPIC_ONLY])

    assert [len(tables) for tables in world.tables.values()] == [1, 1, 0]


def test_without_a_readable_history_nothing_is_judged(world, monkeypatch):
    world.commit(GONE)
    world.clock.advance(DELAY_MS)

    def damaged(service):
        raise CorruptLogError("a gap in the metadata log")

    monkeypatch.setattr(MetadataService, "pieces_newest_first", damaged)

    assert world.clean()[0] == 0
    assert all(world.tables.values())


def test_what_the_history_that_is_left_does_not_name_stays(world, monkeypatch):
    """A replica that was unassigned in the part that is gone is left alone; others are removed."""
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    pieces, is_known = MetadataService.pieces_newest_first, [False]

    def cut_off(service):
        if is_known[0]:
            yield next(pieces(service))
        raise HistoryExpiredError("gone")

    monkeypatch.setattr(MetadataService, "pieces_newest_first", cut_off)
    assert world.clean(world.new_cleaner())[0] == 0

    is_known[0] = True
    assert world.clean(world.new_cleaner())[0] == 3


def test_a_deposed_controller_removes_nothing_more():
    world = World(partition_count=REMOVALS_AT_ONCE)
    world.clean()
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    offsets = []

    def check(image):
        offsets.append(image.offset)
        if len(offsets) == 2:
            raise NotControllerError("another has taken over")

    with pytest.raises(NotControllerError):
        world.clean(check=check)

    left = sum(len(tables) for tables in world.tables.values())
    assert left == 2 * REMOVALS_AT_ONCE
    assert world.clean(world.new_cleaner())[0] == left


def add_topic(world):
    another = PartitionRecord(
        topic="another", topic_id="2" * 32, partition=0, registration=partition("1 2 3")
    )
    world.commit(TopicRecord(topic="another", topic_id=another.topic_id), another)
    for broker_id, tables in world.tables.items():
        found = world.table(broker_id, 0)
        of_another = found.replica._replace(key=PartitionKey(another.topic_id, 0))
        tables.append(replace(found, replica=of_another))


def test_what_is_assigned_and_made_while_a_root_is_listed_stays(world):
    world.while_listing = lambda: add_topic(world)

    assert world.clean()[0] == 0
    assert [len(tables) for tables in world.tables.values()] == [2, 2, 2]


def test_a_zombie_to_which_the_log_looks_old_removes_nothing_that_is_newer(world):
    """Its store shows it an old listing, so that not even catching up tells it."""
    old = MemoryMetadataLog()
    old.batches = list(world.log.batches)
    zombie = world.new_cleaner(old)
    add_topic(world)
    world.clock.advance(DELAY_MS)

    assert world.clean(zombie) == (0, [ALL])
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    assert world.clean(zombie) == (0, [])
    assert [len(tables) for tables in world.tables.values()] == [2, 2, 2]
    assert world.clean(world.new_cleaner())[0] == 3
    assert [len(tables) for tables in world.tables.values()] == [1, 1, 1]


def test_the_root_of_a_broker_that_leaves_is_emptied_at_once(world):
    """No listing will include it; unassigned replicas there need not wait for readers any longer."""
    world.commit(GONE)
    unknown = world.table(2, 9, "unheard of")
    world.tables[2].append(unknown)

    assert world.cleaner.empty(2) == 1

    assert world.tables[2] == [unknown]
    assert [len(world.tables[each]) for each in (1, 3)] == [1, 1]

    world.decide(lambda image: fence_broker(image, 1, "away"))
    assert world.cleaner.empty(1) == 0


def on(*broker_ids, key=KEY):
    return [address(each, key=key) for each in broker_ids]


# fmt: off
UNMADE = [  # partition                           fenced  brokers to make on
    pytest.param(partition("1 2 3", unmade="1 2 3"), "",    [1, 2, 3], id="new-partition"),
    pytest.param(partition("1 2 3", unmade="2"),     "",    [2],       id="one-is-missing"),
    pytest.param(partition("1 2 3"),                 "",    [],        id="all-are-made"),
    pytest.param(partition("1 2 3", unmade="1 2 3"), "3",   [1, 2],    id="not-where-no-root-answers"),
    pytest.param(partition("1 2 3", lost="2"),       "",    [],        id="a-lost-one-is-never-made-under-its-uuid"),
]
# fmt: on


@pytest.mark.parametrize("before, fenced, expected", UNMADE)
def test_replicas_to_make(before, fenced, expected):
    image = image_of(before, fenced=fenced)

    assert [each.address for each in plan_creations(image, [KEY])] == on(*expected)


# fmt: off
CHANGED = [  # image since                                                made         directories after; None: no record
    pytest.param(image_of(partition("1 2", unmade="1 2")),                on(1),       (disk(1), None), id="one-of-two-was-made"),
    pytest.param(image_of(partition("1 2")),                              on(1, 2),    None,            id="somebody-else-has-recorded-it"),
    pytest.param(image_of(partition("1 2", lost="1", unmade="2")),        on(1, 2),    (LOST, disk(2)), id="lost-meanwhile-stays-lost"),
    pytest.param(image_of(partition("3 2", unmade="3 2")),                on(1, 2),    (None, disk(2)), id="moved-meanwhile"),
    pytest.param(image_of(),                                              on(1, 2),    None,            id="deleted-meanwhile"),
    pytest.param(image_of(partition("1 2", unmade="1 2")),                [replace(address(1), replica_uuid=uuid_on(9))], None, id="another-making"),
]
# fmt: on


@pytest.mark.parametrize("image, made, expected", CHANGED)
def test_what_changed_since_is_left_out(image, made, expected):
    result = record_created(image, made)

    if expected is None:
        assert result.records == []
        return
    assert replay(image, result).partition(KEY).directories == expected


# fmt: off
LOST_ONES = [  # partition                                            fenced renewed
    pytest.param(partition("1 2 3", isr="1 2", lost="3"),              "",    [3],    id="outside-the-isr"),
    pytest.param(partition("1 2 3", isr="1", lost="2 3"),              "",    [2, 3], id="two-at-once"),
    pytest.param(partition("1 2 3", isr="1 2", lost="3"),              "3",   [],     id="its-root-does-not-answer"),
    pytest.param(partition("1 2", isr="1", leader=None, lost="1"),     "",    [],     id="the-last-in-sync-keeps-its-uuid"),
    pytest.param(partition("1 2 3", isr="1 2", unmade="3"),            "",    [],     id="never-made"),
    pytest.param(partition("1 2 3"),                                   "",    [],     id="none-is-lost"),
]
# fmt: on


@pytest.mark.parametrize("before, fenced, renewed", LOST_ONES)
def test_lost_replica_outside_the_isr_gets_a_new_uuid(before, fenced, renewed):
    image, numbers = image_of(before, fenced=fenced), count()

    result = recreate_lost(image, lambda: f"new{next(numbers)}")

    assert bool(result.records) == bool(renewed)
    assert result.response == ([KEY] if renewed else [])
    if renewed:
        after = replay(image, result).partition(KEY)
        fresh = [each for each in after.replicas if after.uuid_of(each).startswith("new")]
        assert (
            fresh
            == renewed
            == [each for each in after.replicas if after.directory_of(each) is None]
        )
        assert (after.isr, after.leader_epoch) == (before.isr, before.leader_epoch)


def test_creation_says_whether_the_table_is_there():
    roots = MemoryRoots({"memory://1": disk(1), "memory://2": disk(2), "memory://3": disk(9)})
    roots["memory://2"].is_offline = True
    store = MemoryReplicaStore(roots)

    worker = SimpleNamespace(replicas=store)
    orders = [CreateReplicaOrder(address(each), 7) for each in (1, 1, 2, 3)]
    results = [create_replica_task(order, worker) for order in orders]

    assert results == [True, True, False, False]
    made = store.open(address(1)).load()
    assert (made.log_end_offset, made.leader_epoch) == (0, 7)


def test_a_broker_that_comes_back_is_inspected_as_a_whole(world):
    world.clean()
    world.decide(lambda image: fence_broker(image, 3, "fails"))
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    assert world.clean() == (2, [{1: frozenset({TOPIC_ID}), 2: frozenset({TOPIC_ID})}])

    world.decide(lambda image: unfence_broker(image, 3, "returns"))

    assert world.clean() == (1, [{3: None}])
    assert world.clean() == (0, [])


def test_a_pass_that_takes_long_leaves_the_rest_to_the_next_one():
    world = World(partition_count=REMOVALS_AT_ONCE)
    world.clean()
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    world.before_removal = lambda: world.clock.advance(1500)  # broker.heartbeat.interval.ms=2000

    assert world.clean() == (2 * REMOVALS_AT_ONCE, [TOPIC_ONLY])
    assert world.clean() == (REMOVALS_AT_ONCE, [TOPIC_ONLY])
    assert world.clean() == (0, [])


def test_a_broker_may_leave_whose_root_does_not_answer_and_is_inspected_once_it_comes_again(world):
    world.clean()
    world.commit(GONE)
    world.clock.advance(DELAY_MS)
    world.failing = {2}

    assert world.cleaner.empty(2) == 0
    assert world.clean() == (2, [{1: TOPIC_ONLY[1], 2: None, 3: TOPIC_ONLY[3]}])
    world.failing = set()
    assert world.clean() == (1, [{2: None}])

"""Topics: what is created, changed and deleted, and where partitions are placed."""

from dataclasses import replace
from functools import partial
from itertools import count, product
from random import Random

import pytest

from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    PolicyViolationError,
)
from kafka_on_spark.controller.topics import (
    Stripes,
    add_partitions,
    alter_cluster_configs,
    alter_configs,
    create_topic,
    remove_partitions,
)
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    MetadataBatch,
    PartitionRecord,
    Stamp,
    TopicRecord,
)
from tests.builders import TOPIC, cluster_of, image_of, partition

IMAGE = image_of(partition("1 2"), ids="1 2 3 4", fenced="4")


def create(name="payments", *, image=IMAGE, assignment=None, partitions=2, factor=2, configs=None):
    numbers = count(1)
    return create_topic(
        image,
        name,
        partition_count=partitions if assignment is None else None,
        replication_factor=factor if assignment is None else None,
        replica_assignment=assignment,
        configs=configs or {},
        new_uuid=lambda: f"{next(numbers):032x}",
        random_below=lambda bound: 0,
        cause="create_topic by a test",
    )


def replay(result, image=IMAGE):
    return image.replay(
        MetadataBatch(
            base_offset=image.offset, stamp=Stamp(time_ms=1), records=tuple(result.records)
        )
    )


def test_topic_is_one_decision_of_records_in_replay_order():
    result = create(configs={"min.insync.replicas": 2})

    kinds = [type(each) for each in result.records]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert {each.cause for each in result.records} == {"create_topic by a test"}
    after = replay(result)
    assert after.topic("payments").topic_id == result.response
    assert after.topic("payments").configs == {"min.insync.replicas": "2"}
    assert list(after.topic("payments").partitions) == [0, 1]


def test_explicit_assignment_may_name_partitions_in_any_order():
    result = create(assignment={1: [2], 0: [1]})

    assert [each.replicas for each in replay(result).topic("payments").partitions.values()] == [
        (1,),
        (2,),
    ]


def test_an_assignment_to_brokers_that_are_all_away_is_refused():
    with pytest.raises(InvalidReplicaAssignmentError, match="fenced"):
        create(assignment={0: [4]})


def test_settings_of_the_cluster_are_set_and_removed():
    before = image_of(
        partition("1 2", isr="1", elr="2"), configs={"num.partitions": "3", "retention.ms": "5"}
    )
    before = replace(before, configs={"num.partitions": "3", "retention.ms": "5"})

    result = alter_cluster_configs(
        before, {"num.partitions": None, "retention.ms": 7, "segment.bytes": None}, cause="why"
    )

    assert result.records == [
        ConfigRecord(topic_id=None, config_name="num.partitions", config_value=None, cause="why"),
        ConfigRecord(topic_id=None, config_name="retention.ms", config_value="7", cause="why"),
    ]
    assert replay(result, before).configs == {"retention.ms": "7"}


@pytest.mark.parametrize("own, elr", [({}, set()), ({"min.insync.replicas": "2"}, {2})])
def test_another_minimum_of_the_cluster_empties_the_elrs_where_it_holds(own, elr):
    """KIP-966: under another minimum the high watermark may move without their members."""
    before = image_of(partition("1 2", isr="1", elr="2"), configs=own)

    result = alter_cluster_configs(before, {"min.insync.replicas": 1}, cause="why")

    assert replay(result, before).topic(TOPIC).partitions[0].elr == elr


@pytest.mark.parametrize("configs", [{"num.partition": 1}, {"num.partitions": 0}, {"zzz": None}])
def test_settings_of_the_cluster_are_checked(configs):
    with pytest.raises(InvalidConfigError):
        alter_cluster_configs(IMAGE, configs, cause="why")


MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"

# fmt: off
CONTRADICTIONS = [  # the cluster's         the topic's      are altered       by
    pytest.param(   {},                     {},              "the topic's",    {MIN_LAG: 8, MAX_LAG: 7}, id="both at once"),
    pytest.param(   {},                     {MAX_LAG: "7"},  "the topic's",    {MIN_LAG: 8},             id="one after the other"),
    pytest.param(   {MIN_LAG: "8"},         {},              "the topic's",    {MAX_LAG: 7},             id="one is the cluster's"),
    pytest.param(   {MIN_LAG: "8"},         {MIN_LAG: "7", MAX_LAG: "7"}, "the topic's", {MIN_LAG: None}, id="one is removed"),
    pytest.param(   {},                     {},              "the cluster's",  {MIN_LAG: 8, MAX_LAG: 7}, id="the cluster's"),
    pytest.param(   {},                     {MAX_LAG: "7"},  "the cluster's",  {MIN_LAG: 8},             id="the cluster's, with a topic's"),
]

# fmt: on


@pytest.mark.parametrize("cluster, topic, whose, change", CONTRADICTIONS)
def test_records_that_would_have_to_be_compacted_before_they_may_be_are_refused(
    cluster, topic, whose, change
):
    """Source: LogConfig.validateValues."""
    before = replace(image_of(partition("1"), configs=topic), configs=cluster)
    alter = partial(alter_configs, before, TOPIC)
    if whose == "the cluster's":
        alter = partial(alter_cluster_configs, before)

    with pytest.raises(InvalidConfigError, match=r"can't be 8 while its .* is 7: records"):
        alter(change, cause="why")


@pytest.mark.parametrize("value", ["1", None])
def test_unknown_setting_is_refused_also_when_it_is_to_be_removed(value):
    with pytest.raises(InvalidConfigError, match=r"min\.insync\.replicas"):
        alter_configs(IMAGE, TOPIC, {"min.insync.replica": value}, cause="why")


def grow(image, to, assignment=None):
    numbers = count(50)
    return add_partitions(
        image,
        "payments",
        to=to,
        replica_assignment=assignment,
        new_uuid=lambda: f"{next(numbers):032x}",
        random_below=lambda bound: 0,
        cause="more partitions for a test",
    )


def test_new_partitions_follow_the_old_ones_with_as_many_replicas():
    before = replay(create(partitions=2, factor=3))

    result = grow(before, 5)
    after = replay(result, before)

    topic = after.topic("payments")
    assert result.response == 3
    assert sorted(topic.partitions) == [0, 1, 2, 3, 4]
    assert {len(each.replicas) for each in topic.partitions.values()} == {3}
    assert [before.topic("payments").was_resized, topic.was_resized] == [False, True]
    assert topic.partitions[0] == before.topic("payments").partitions[0]
    uuids = [uuid for each in topic.partitions.values() for uuid in each.replica_uuids]
    assert len(set(uuids)) == 15
    assert {each.unclean_generation for each in topic.partitions.values()} == {0}


@pytest.mark.parametrize(
    "assignment, words",
    [
        ({2: [1, 2]}, r"names partitions \[2\]: name each from 2 to 3"),
        ({0: [1, 2], 1: [1, 2], 2: [1, 2], 3: [1, 2]}, "name each from 2 to 3"),
        ({2: [1, 2], 3: [1]}, r"\[1, 2\] replicas: give all the same number"),
        ({2: [1], 3: [2]}, "1 replicas, and the topic's have 2"),
        ({2: [1, 2], 3: [1, 9]}, r"partition 3 can't be on brokers \[1, 9\]"),
        ({2: [1, 2], 3: [1, 1]}, r"partition 3 can't be on brokers \[1, 1\]"),
        ([[1, 2], [2, 1]], "replica_assignment"),
    ],
)
def test_new_partitions_are_not_where_none_can_be(assignment, words):
    with pytest.raises(InvalidReplicaAssignmentError, match=words):
        grow(replay(create(partitions=2, factor=2)), 4, assignment)


# fmt: off
EMPTY, FULL = partition("1 2"), partition("1 2", hw=3, hw_epoch=5)

REMOVED = [  # partitions                                        to, records    gone
    pytest.param([EMPTY, EMPTY, EMPTY],                          1, "refuse",   [2, 1],  id="empty-ones-from-the-tail"),
    pytest.param([FULL, FULL, EMPTY],                            2, "refuse",   [2],     id="who-stays-may-have-records"),
    pytest.param([FULL, FULL, FULL],                             1, "drop",     [2, 1],  id="records-are-dropped-when-told"),
    pytest.param([FULL, partition("1", hw=3, hw_epoch=5, start=3)], 1, "refuse", [1],    id="emptied-by-retention"),
]

KEPT = [
    pytest.param([EMPTY, FULL],                                  {"to": 1, "records": "refuse"}, PolicyViolationError,    "partition 1 of topic 'orders' has 3 records", id="records"),
    pytest.param([EMPTY, partition("1", leo=2)],                 {"to": 1, "records": "refuse"}, PolicyViolationError,    "has 2 records",                 id="uncommitted-records"),
    pytest.param([FULL, FULL, EMPTY],                            {"to": 1, "records": "refuse"}, PolicyViolationError,    "1 of 2 partitions",             id="one-of-those-that-go"),
    pytest.param([EMPTY, EMPTY],                                 {"to": 1, "records": "keep"},   InvalidRequestError,     "'refuse' unless .* or 'drop'",  id="another-word"),
    pytest.param([EMPTY, EMPTY],                                 {"to": 2, "records": "drop"},   InvalidPartitionsError,  "has 2 partitions .* left 2",    id="as-many"),
    pytest.param([EMPTY, EMPTY],                                 {"to": 3, "records": "drop"},   InvalidPartitionsError,  "left 3",                        id="more"),
    pytest.param([EMPTY, EMPTY],                                 {"to": 0, "records": "drop"},   InvalidPartitionsError,  "at least 1",                    id="none"),
]

# fmt: on


@pytest.mark.parametrize("partitions, to, records, gone", REMOVED)
def test_partitions_are_removed_from_the_tail(partitions, to, records, gone):
    image = image_of(*partitions)

    result = remove_partitions(image, TOPIC, to=to, records=records, cause="why")

    assert [record.partition for record in result.records] == gone
    assert result.response == len(gone)
    topic = replay(result, image).topic(TOPIC)
    assert topic.partitions == dict(enumerate(partitions[:to]))
    assert topic.was_resized


@pytest.mark.parametrize("partitions, how, error, words", KEPT)
def test_partitions_are_not_removed(partitions, how, error, words):
    with pytest.raises(error, match=words):
        remove_partitions(image_of(*partitions), TOPIC, cause="", **how)


def place(ids, *, partitions, factor, fenced="", racks="", seed=0):
    brokers = cluster_of(ids, fenced=fenced, racks=racks).values()
    return Stripes(brokers, Random(seed).randrange).place_all(partitions, factor)


def draws(script):
    """Return a source of draws that gives these numbers, then zeros."""
    numbers = iter(script)
    return lambda bound: next(numbers, 0) % bound


def test_one_broker_takes_any_number_of_partitions():
    """Its turn comes again though nobody else had one (Kafka: `numUnfencedBrokers > 1`)."""
    assert place("7", partitions=5, factor=1) == [(7,)] * 5


def test_every_small_cluster_is_placed_soundly():
    """Up to five brokers, each pattern of fences and of two racks or none, each factor."""
    checked = 0
    for broker_count, seed in product(range(1, 6), range(2)):
        ids = " ".join(map(str, range(broker_count)))
        for bits, racks in product(
            range(2**broker_count - 1), ("", " ".join("aabab"[:broker_count]))
        ):
            fenced = [each for each in range(broker_count) if bits >> each & 1]
            active = set(range(broker_count)) - set(fenced)
            for factor in range(1, broker_count + 1):
                placed = place(
                    ids,
                    partitions=7,
                    factor=factor,
                    fenced=" ".join(map(str, fenced)),
                    racks=racks,
                    seed=seed,
                )
                checked += 1
                assert len(placed) == 7
                for replicas in placed:
                    assert len(set(replicas)) == len(replicas) == factor
                    assert set(replicas) <= set(range(broker_count))
                    assert replicas[0] in active
                    if not racks and factor <= len(active):
                        assert set(replicas) <= active
    assert checked == 972


def test_with_racks_neighbours_are_in_different_racks():
    brokers = cluster_of("0 1 2 3 4 5", racks="a a b b c c").values()
    placed = Stripes(brokers, draws([])).place_all(3, 3)

    assert placed == [(0, 2, 4), (3, 5, 1), (4, 0, 2)]

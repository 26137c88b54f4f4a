"""Records as rows and back, through the very Parquet files of the metadata log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import KEEP, LOST, PartitionKey
from kafka_on_spark.metadata import metadata_files
from kafka_on_spark.metadata import records as kinds
from kafka_on_spark.metadata.metadata_files import (
    FILE_SCHEMA,
    _columns_of,
    _rows_of,
    decode_file,
    decode_tables,
    encode_file,
    rows_of,
)
from kafka_on_spark.metadata.partition import (
    NOT_COMPACTED,
    Compaction,
    PartitionChange,
    PartitionRegistration,
)
from kafka_on_spark.metadata.records import (
    COLUMNS,
    BrokerState,
    RefusedWrite,
    Stamp,
    decode,
    decode_columns,
    decode_stamp,
    encode,
)
from tests.builders import brokers, disk, partition
from tests.examples import many

STAMP = Stamp(time_ms=1_700_000_000_123)

numbers = st.integers(0, 2**62)
small = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe_text = st.none() | texts
maybe_number = st.none() | numbers
cause = {"cause": maybe_text}
states = st.sampled_from(BrokerState)
FIVE = brokers("1 2 3 4 5")


@st.composite
def compactions(draw, high_watermark):
    """Return offsets in order, at most the high watermark; half of all partitions have none."""
    if draw(st.booleans()):
        return NOT_COMPACTED
    below = sorted(draw(st.tuples(*[st.integers(0, high_watermark)] * 4)))
    return Compaction(**dict(zip(OFFSETS, below, strict=True)), expiring_since_ms=draw(small))


OFFSETS = ("tombstones_below", "expiring_below", "cleaned_below", "compacted_below")


@st.composite
def registrations(draw):
    replicas = tuple(draw(st.lists(small, min_size=1, max_size=4, unique=True)))
    isr = draw(st.frozensets(st.sampled_from(replicas)))
    rest = sorted(set(replicas) - isr)
    high_watermark = draw(numbers)
    return PartitionRegistration(
        replicas=replicas,
        replica_uuids=tuple(draw(texts) for _ in replicas),
        directories=tuple(draw(st.sampled_from([None, LOST, disk(1)])) for _ in replicas),
        isr=isr,
        elr=draw(st.frozensets(st.sampled_from(rest))) if rest else frozenset(),
        leader=draw(st.sampled_from([None, *isr])),
        leader_epoch=draw(numbers),
        partition_epoch=draw(numbers),
        adding_replicas=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        removing_replicas=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        throttle_bytes_per_s=draw(maybe_number),
        high_watermark=high_watermark,
        high_watermark_epoch=draw(maybe_number),
        log_end_offset=draw(numbers),
        log_start_offset=draw(st.integers(0, high_watermark)),
        unclean_generation=draw(small),
        compaction=draw(compactions(high_watermark)),
    )


def keep_or(values):
    return st.just(KEEP) | values


sets = st.frozensets(small, max_size=3)
orders = st.lists(small, max_size=3, unique=True).map(tuple)
changes = st.builds(
    PartitionChange,
    isr=keep_or(sets),
    elr=keep_or(sets),
    leader=keep_or(st.none() | small),
    replicas=keep_or(orders),
    replica_uuids=keep_or(st.lists(texts, max_size=3).map(tuple)),
    directories=keep_or(st.lists(st.none() | texts, max_size=3).map(tuple)),
    adding_replicas=keep_or(orders),
    removing_replicas=keep_or(orders),
    throttle_bytes_per_s=keep_or(maybe_number),
    high_watermark=keep_or(numbers),
    high_watermark_epoch=keep_or(numbers),
    unclean_generation=keep_or(small),
    compaction=keep_or(compactions(2**40)),
)
place = {"topic_id": texts, "partition": small}
few = st.sampled_from("ab")
hosts = st.lists(texts, min_size=1, max_size=2).map(tuple)
refusals = st.none() | st.builds(RefusedWrite, numbers, hosts)
of_group = {"group": few, "member_id": few}
shared = st.frozensets(st.builds(PartitionKey, texts, small), max_size=3)
STRATEGIES = {
    kinds.ClusterRecord: {"cluster_id": texts},
    kinds.VotersRecord: {
        "voters": st.lists(texts, min_size=1, max_size=3).map(tuple), "cluster_id": maybe_text,
    },
    kinds.ExpiredRecord: {},
    kinds.LeaderChangeRecord: {"leader": small, "directory_id": texts},
    kinds.ControllerRecord: {"controller_id": texts, "controller_epoch": numbers, "is_resignation": st.booleans()},
    kinds.BrokerRecord: {
        "broker_id": small, "broker_epoch": numbers, "root": texts, "rack": maybe_text,
        "directory_id": texts, "broker_state": states, "refused": refusals,
    },
    kinds.BrokerChangeRecord: {
        "broker_id": small, "broker_epoch": numbers, "broker_state": states, "refused": refusals,
    },
    kinds.TopicRecord: {"topic": texts, "topic_id": texts},
    kinds.UnregisterBrokerRecord: {"broker_id": small, "broker_epoch": numbers},
    kinds.RemoveTopicRecord: {"topic_id": texts},
    kinds.RemovePartitionRecord: {**place, "topic": texts},
    kinds.PartitionRecord: {**place, "topic": texts, "registration": registrations()},
    kinds.PartitionChangeRecord: {
        **place, "change": changes, "topic": texts, "leader_epoch": numbers, "partition_epoch": numbers,
    },
    kinds.HighWatermarkRecord: {
        **place, "leader_epoch": numbers, "partition_epoch": numbers, "high_watermark": maybe_number,
        "high_watermark_epoch": maybe_number, "log_end_offset": numbers, "log_start_offset": maybe_number,
    },
    kinds.ConfigRecord: {"topic_id": maybe_text, "config_name": texts, "config_value": maybe_text},
    kinds.ProducerRecord: {"producer_id": texts, "producer_epoch": numbers, "first_sequence": maybe_number, "renewed_at_ms": maybe_number},
    kinds.RemoveProducerRecord: {"producer_id": texts, "producer_epoch": numbers},
    kinds.OffsetCommitRecord: {**place, "group": texts, "offset": maybe_number, "leader_epoch": maybe_number, "unclean_generation": maybe_number, "renewed_at_ms": maybe_number},
    kinds.GroupMemberRecord: {
        **of_group, "group_epoch": small, "instance_id": maybe_text, "assignor": maybe_text,
        "subscribed_topics": st.lists(texts, max_size=3).map(tuple),
        "client": st.builds(kinds.MemberClient, maybe_text, maybe_text, maybe_number),
    },
    kinds.RemoveGroupMemberRecord: {**of_group, "group_epoch": small},
    kinds.GroupTargetRecord: {**of_group, "partitions": shared},
    kinds.GroupTargetEpochRecord: {"group": few, "target_epoch": small, "partitions": shared},
    kinds.GroupAssignmentRecord: {**of_group, "member_epoch": st.integers(-2, 9), "partitions": shared},
    kinds.AdminRequestRecord: {"request": texts},
    kinds.AdminResultRecord: {"request": texts, "result": texts},
}  # fmt: skip
records = st.one_of([st.builds(kind, **fields, **cause) for kind, fields in STRATEGIES.items()])


def through_parquet(given, stamp=STAMP):
    return _rows_of(table_of(given, stamp))


def table_of(given, stamp=STAMP):
    [table] = decode_tables(encode_file(given, stamp, 40).to_pybytes(), "file")
    return table


def test_every_record_type_has_a_strategy():
    assert set(STRATEGIES) == set(kinds.Record.__args__)
    assert len(STRATEGIES) == 25


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
def test_every_type_comes_back_as_it_was(kind):
    @settings(max_examples=many(25))
    @given(st.builds(kind, **STRATEGIES[kind], **cause))
    def check(record):
        [row] = through_parquet([record])
        assert decode(row) == record

    check()


STAMPS = [
    STAMP,
    Stamp(time_ms=0, controller_id="c", controller_epoch=0, application_id="app"),
    Stamp(time_ms=5, application_id="app"),
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_stamp_stands_in_every_row(stamp):
    rows = through_parquet(
        [kinds.ClusterRecord(cluster_id="c"), kinds.TopicRecord(topic="t", topic_id="i")], stamp
    )

    assert [decode_stamp(row) for row in rows] == [stamp, stamp]


def test_columns_are_those_of_the_table_for_every_type():
    registration = kinds.PartitionRecord(
        topic="t", topic_id="i", partition=0, registration=partition("1 2")
    )

    columns = encode([registration], STAMP)

    assert list(columns) == list(COLUMNS)
    assert FILE_SCHEMA.names == ["offset_delta", "batch_base_offset", *COLUMNS]
    assert columns["isr"] == [[1, 2]]
    assert columns["elr"] == [[]]


# fmt: off
REQUESTS = [
    pytest.param(None,                                kinds.NO_CLIENT,                     id="an older version"),
    pytest.param('{"client_id": "c"}',                kinds.MemberClient("c"),             id="a part"),
    pytest.param('{"host": "h", "process_id": 7, "rack": "r"}', kinds.MemberClient(None, "h", 7), id="a newer version"),
]
# fmt: on


@pytest.mark.parametrize("wire, client", REQUESTS)
def test_a_member_says_of_its_client_what_its_version_knows(wire, client):
    given = {"group": "g", "group_epoch": 1, "member_id": "a", "subscribed_topics": ()}

    assert decode(row(record_type="GroupMemberRecord", request=wire, **given)).client == client


def test_a_members_client_has_no_column_that_older_processes_refuse():
    """A file with a column that a process does not know is damaged to it."""
    member = kinds.GroupMemberRecord(
        group="g", group_epoch=1, member_id="a", instance_id=None, subscribed_topics=(),
        assignor=None, client=kinds.MemberClient("c", "h", 7),
    )  # fmt: skip

    used = {name for name, values in encode([member], STAMP).items() if values is not None}

    assert used == {
        "record_type",
        "time",
        "group",
        "group_epoch",
        "member_id",
        "subscribed_topics",
        "request",
    }


def row(**fields):
    return dict.fromkeys(COLUMNS) | fields


# fmt: off
BAD_ROWS = [
    pytest.param(row(record_type="VoterRecord"),                                    id="type-of-a-newer-version"),
    pytest.param(row(record_type=None),                                             id="no-type"),
    pytest.param(row(record_type="BrokerRecord", broker_state="asleep"),            id="unknown-state"),
    pytest.param(row(record_type="PartitionRecord"),                                id="fields-missing"),
    pytest.param({"record_type": "TopicRecord"},                                    id="columns-missing"),
]
# fmt: on


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_row_that_is_no_record_is_corruption(bad):
    with pytest.raises(CorruptLogError):
        decode(bad)


# What comes by the million, in runs long enough to be read by columns, with others between.
runs = st.lists(
    st.one_of(
        *(
            st.lists(st.builds(kind, **STRATEGIES[kind], **cause), max_size=16)
            for kind in (
                kinds.PartitionRecord,
                kinds.PartitionChangeRecord,
                kinds.HighWatermarkRecord,
            )
        ),
        st.lists(records, max_size=3),
    ),
    min_size=1,
    max_size=4,
).map(lambda lists: [record for each in lists for record in each])


@settings(max_examples=many(40))
@given(runs.filter(bool))
def test_columns_say_what_rows_say(batch):
    table = table_of(batch)

    by_columns = decode_columns(_columns_of(table), table.num_rows)

    assert by_columns == batch
    assert by_columns == [decode(row) for row in _rows_of(table)]


@pytest.mark.parametrize("slice_rows", [1, 7, 50])
def test_file_in_slices_is_the_same(monkeypatch, slice_rows):
    batch = [
        kinds.PartitionRecord(
            topic="t", topic_id="i", partition=each, registration=partition("1 2")
        )
        for each in range(25)
    ] + [kinds.TopicRecord(topic="t", topic_id="i", cause="why")]
    whole = decode_file(encode_file(batch, STAMP, 40).to_pybytes(), "file")
    monkeypatch.setattr(metadata_files, "SLICE_ROWS", slice_rows)

    content = encode_file(batch, STAMP, 40).to_pybytes()

    assert decode_file(content, "file") == whole
    assert list(whole[0].records) == batch


# fmt: off
BAD_VALUES = [
    pytest.param("isr",                   (1, 9),               id="in-sync-but-not-a-replica"),
    pytest.param("isr",                   None,                 id="no-isr"),
    pytest.param("elr",                   (1,),                 id="eligible-though-in-sync"),
    pytest.param("replicas",              (1, 1),               id="a-replica-twice"),
    pytest.param("replicas",              (),                   id="no-replica"),
    pytest.param("replica_uuids",         ("a",),               id="a-uuid-missing"),
    pytest.param("directories",           (None, None, None),   id="a-directory-too-many"),
    pytest.param("leader",                7,                    id="leader-out-of-sync"),
    pytest.param("adding_replicas",       (3,),                 id="adding-what-is-no-replica"),
    pytest.param("removing_replicas",     (3,),                 id="removing-what-is-no-replica"),
    pytest.param("log_start_offset",      5,                    id="start-above-the-high-watermark"),
    pytest.param("high_watermark",        None,                 id="no-high-watermark"),
]
# fmt: on


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("name, value", BAD_VALUES)
def test_partition_that_can_not_be_is_corruption_by_rows_and_by_columns(name, value, count):
    batch = [
        kinds.PartitionRecord(
            topic="t", topic_id="i", partition=each, registration=partition("1 2")
        )
        for each in range(count)
    ]
    columns = _columns_of(table_of(batch))
    columns[name] = [*(columns[name] or [None] * count)[:-1], value]

    with pytest.raises(CorruptLogError):
        decode_columns(columns, count)
    with pytest.raises(CorruptLogError):
        [decode(row) for row in rows_of(columns, count)]

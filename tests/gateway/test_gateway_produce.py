"""Appends by Kafka's protocol: where records stand, and which ones are refused."""

import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from kafka_on_spark.gateway.gateway import Gateway, listening_at
from kafka_on_spark.gateway.gateways import Gateways
from kafka_on_spark.gateway.wire import INIT_PRODUCER_ID
from tests.cluster.serving.processes import wait_for
from tests.gateway.raw_client import RawClient, batch, produced


def values(cluster, topic, partition=0):
    rows = cluster.read(topic).to_pylist()
    return [each["value"].decode() for each in rows if each["partition"] == partition]


def texts(*given):
    return [each.encode() for each in given]


def new_id(client, transactional_id=None):
    answer = client.ask(
        INIT_PRODUCER_ID,
        4,
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=1),
    )
    return answer.error_code, answer.producer_id


@pytest.fixture
def producer(client):
    code, found = new_id(client)
    assert code is ErrorCode.none
    return found


def test_batches_of_partitions_stand_where_their_answers_say(client, cluster, topic):
    assert client.produce(topic, {0: batch(texts("a", "b")), 1: batch(texts("c"))}) == {
        0: (0, 0),
        1: (0, 0),
    }
    assert client.produce(topic, {0: batch(texts("d"))}) == {0: (0, 2)}
    assert values(cluster, topic) == ["a", "b", "d"]
    assert values(cluster, topic, 1) == ["c"]


def test_requests_that_wait_go_into_one_append_in_their_order(client, cluster, topic):
    asked = [client.send_produce(topic, {0: batch(texts(str(each)))}) for each in range(20)]

    found = [produced(client.receive(each))[0] for each in asked]

    assert found == [(0, each) for each in range(20)]
    assert values(cluster, topic) == list(map(str, range(20)))


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_records_are_soon_committed_whatever_a_client_waits_for(client, cluster, topic, acks):
    asked = client.send_produce(topic, {0: batch(texts("a"))}, acks=acks)
    if acks != 0:
        assert produced(client.receive(asked)) == {0: (0, 0)}

    wait_for(lambda: values(cluster, topic) == ["a"])

    assert client.produce(topic, {0: batch(texts("b"))}) == {0: (0, 1)}


def test_what_is_wrong_is_refused_and_the_rest_is_appended(client, cluster, topic):
    cluster.alter_topic_configs(topic, {"max.message.bytes": 1000})
    asked = [
        client.send_produce(topic, {0: batch(texts("a")), 1: b"rubbish"}),
        client.send_produce(topic, {0: batch([b"x" * 2000]), 1: batch(texts("c"))}),
        client.send_produce(topic, {0: batch(texts("b")), 7: batch(texts("d"))}),
    ]

    found = [produced(client.receive(each)) for each in asked]

    assert found == [
        {0: (0, 0), 1: (ErrorCode.corrupt_message, -1)},
        {0: (ErrorCode.message_too_large, -1), 1: (0, 0)},
        {0: (0, 1), 7: (ErrorCode.unknown_topic_or_partition, -1)},
    ]
    assert values(cluster, topic) == ["a", "b"]


@pytest.mark.parametrize(
    "how, code",
    [
        ({"acks": 2}, ErrorCode.invalid_required_acks),
        ({"topic": "nowhere"}, ErrorCode.unknown_topic_or_partition),
    ],
    ids=["acks", "a topic"],
)
def test_a_request_that_can_not_be_is_refused(client, topic, how, code):
    how = {"topic": topic, **how}
    assert client.produce(how.pop("topic"), {0: batch([b"a"])}, **how) == {0: (code, -1)}


# Idempotent producers


def test_each_producer_gets_an_id_of_its_own(client):
    found = [new_id(client) for _ in range(5)]

    assert {code for code, _ in found} == {ErrorCode.none}
    assert len({each for _, each in found}) == 5
    assert all(0 <= each < 2**63 for _, each in found)


def test_transactions_are_refused(client):
    code, found = new_id(client, transactional_id="mine")

    assert (code, found) == (ErrorCode.transactional_id_authorization_failed, -1)
    assert not ErrorCode.transactional_id_authorization_failed.retriable


def test_a_batch_that_comes_again_stands_once_and_has_the_same_answer(
    client, cluster, topic, producer
):
    batches = [batch(texts(name), producer=(producer, 0, n)) for n, name in enumerate("abcde")]
    asked = [client.send_produce(topic, {0: each}) for each in (*batches, *batches)]

    found = [produced(client.receive(each))[0] for each in asked]

    assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)] * 2
    assert values(cluster, topic) == list("abcde")
    assert cluster.fsck().findings == ()


def test_batches_that_were_put_together_are_known_alone_and_otherwise_put_together(
    client, cluster, topic, producer
):
    batches = [batch(texts(f"{n}a", f"{n}b"), producer=(producer, 0, 2 * n)) for n in range(6)]
    tries = [(0, 1, 2), (1,), (2,), (0, 1), (1, 2, 3), (0, 1, 2, 3, 4, 5), (5, 0)]

    for numbers in tries:
        asked = [client.send_produce(topic, {0: batches[n]}) for n in numbers]
        assert [produced(client.receive(each))[0] for each in asked] == [
            (0, 2 * n) for n in numbers
        ]

    assert values(cluster, topic) == [f"{n}{each}" for n in range(6) for each in "ab"]
    assert cluster.fsck().findings == ()


GAPS = {
    "a gap": (0, 7, ErrorCode.out_of_order_sequence_number),
    "other records under a sequence": (0, 1, ErrorCode.out_of_order_sequence_number),
    "a new epoch that does not begin at 0": (1, 3, ErrorCode.out_of_order_sequence_number),
}


@pytest.mark.parametrize("name", GAPS)
def test_a_batch_that_does_not_follow_is_refused(client, cluster, topic, producer, name):
    epoch, sequence, code = GAPS[name]
    for n, value in enumerate(texts("a", "b", "c")):
        client.produce(topic, {0: batch([value], producer=(producer, 0, n))})

    found = client.produce(topic, {0: batch([b"x"], producer=(producer, epoch, sequence))})

    assert found == {0: (code, -1)}
    assert values(cluster, topic) == ["a", "b", "c"]


def test_a_new_epoch_begins_at_0_and_ends_the_one_before(client, cluster, topic, producer):
    for epoch, sequence, value in ((0, 0, "a"), (0, 1, "b"), (1, 0, "c"), (1, 1, "d")):
        sent = batch(texts(value), producer=(producer, epoch, sequence))
        assert client.produce(topic, {0: sent})[0][0] == 0

    late = batch([b"late"], producer=(producer, 0, 2))

    assert client.produce(topic, {0: late}) == {0: (ErrorCode.invalid_producer_epoch, -1)}
    assert values(cluster, topic) == list("abcd")


def test_a_sequence_begins_again_at_0_behind_the_last_number_of_31_bits(
    client, cluster, topic, producer
):
    last = 2**31 - 2
    for sequence, value in ((last, "a"), (0, "b"), (1, "c")):
        sent = batch(texts(value, value), producer=(producer, 0, sequence))
        if value == "c":  # 0 and 1 came with b
            assert client.produce(topic, {0: sent})[0][0] == ErrorCode.out_of_order_sequence_number
        else:
            assert client.produce(topic, {0: sent})[0][0] == 0

    again = batch(texts("b", "b"), producer=(producer, 0, 0))

    assert client.produce(topic, {0: again}) == {0: (0, 2)}
    assert values(cluster, topic) == ["a", "a", "b", "b"]
    assert cluster.fsck().findings == ()


def test_an_id_that_no_gateway_gave_is_refused(client, topic):
    found = client.produce(topic, {0: batch([b"a"], producer=(uuid.uuid4().int >> 66, 0, 0))})

    assert found == {0: (ErrorCode.unknown_producer_id, -1)}


def test_another_gateway_knows_what_the_first_one_has_appended(
    cluster, client, topic, producer, monkeypatch
):
    monkeypatch.setattr(Gateways, "leads", lambda *_: True)  # as each does when the other is away
    sent = [batch(texts(str(n)), producer=(producer, 0, n)) for n in range(3)]
    for each in sent[:2]:
        client.produce(topic, {0: each})
    other = Gateway(cluster._node, listening_at("127.0.0.1:0"))
    other.begin()
    try:
        with RawClient((other.host, other.port)) as later:
            assert later.produce(topic, {0: sent[1]}) == {0: (0, 1)}
            assert later.produce(topic, {0: sent[2]}) == {0: (0, 2)}
    finally:
        other.end()
    assert values(cluster, topic) == ["0", "1", "2"]

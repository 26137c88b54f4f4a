"""What the options and columns of a write may be: the texts are those of Spark's Kafka sink."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.consume.options import parse_sink
from kafka_on_spark.produce.records import check_columns
from tests.bad_input.refusals import check_sentence

BASE = {"cluster": "/c", "topic": "t"}
HEADERS = "array<struct<key:string,value:binary>>"
NO_TOPIC = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."


def parse(options, *, is_stream=False, base=BASE):
    """Parse options with the keys as Spark hands them over: lower-cased."""
    given = {name.lower(): text for name, text in {**base, **options}.items()}
    return parse_sink(given, is_stream=is_stream)


# fmt: off
VALUES = [
    pytest.param({},                                                          "topic",            "t",                 id="topic"),
    pytest.param({"topic": " t "},                                            "topic",            "t",                 id="a topic with spaces"),
    pytest.param({},                                                          "acks",             "all",               id="acks by default"),
    pytest.param({"kafka.acks": "1"},                                         "acks",             "1",                 id="acks in Kafka's words"),
    pytest.param({"kafka.acks": "0", "acks": "1"},                            "acks",             "1",                 id="our acks win"),
    pytest.param({"kafka.transactional.id": "x"},                             "transactional_id", "x",                 id="Kafka's transactional id"),
    pytest.param({"transactional_id": "y", "kafka.transactional.id": "x"},    "transactional_id", "y",                 id="our transactional id wins"),
    pytest.param({"producer_id": "p", "sequence": "7"},                       "sequence",         7,                   id="a sequence"),
    pytest.param({"producer_id": "p", "producer_epoch": "6"},                 "producer_epoch",   6,                   id="a run"),
    pytest.param({"expected_offsets": '{"t":{"0":5,"1":0}}'},                 "expected_offsets", {"t": {0: 5, 1: 0}}, id="log ends"),
    pytest.param({"storage.aws_region": "x"},                                 "storage",          {"aws_region": "x"}, id="storage"),
]
BAD = [
    pytest.param({"kafka.key.serializer": "x"},        ["Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."],    id="key.serializer"),
    pytest.param({"kafka.value.serializer": "x"},      ["Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."], id="value.serializer"),
    pytest.param({"includeHeaders": "yes"},            ["'includeHeaders' can't be 'yes'", "true or false"],                                                   id="includeHeaders"),
    pytest.param({"subscribe": "t"},                   ["unknown option 'subscribe'"],                                                                        id="a source's option"),
    pytest.param({"sequence": "1_0"},                  ["'sequence' can't be '1_0'", "a whole number"],                                                       id="sequence-of-python-alone"),
    pytest.param({"sequence": "x"},                    ["'sequence' can't be 'x'", "a whole number"],                                                         id="sequence"),
    pytest.param({"expected_offsets": "5"},            ["'expected_offsets': Expected e.g. ", '{"flights":{"0":23,"1":0}}'],                                     id="one log end"),
    pytest.param({"expected_offsets": '{"0":5}'},      ["'expected_offsets': Expected e.g. "],                                                                       id="log ends without a topic"),
    pytest.param({"expected_offsets": '{"t":{"0":-1}}'}, ["'expected_offsets': Expected e.g. "],                                                                     id="a negative log end"),
]
IN_STREAMS = [
    pytest.param({"producer_id": "p", "sequence": "1"},     ["producer_id and sequence can't be set for a stream"],   id="producer"),
    pytest.param({"sequence": "1"},                         ["producer_id and sequence can't be set for a stream"],   id="sequence"),
    pytest.param({"expected_offsets": '{"t":{"0":5}}'},     ["expected_offsets can't be set for a stream", "foreachBatch"], id="log ends"),
]
COLUMNS = [  # the order is KafkaWriter's: topic, key, value, headers, partition
    pytest.param({"key": "string"},                                  False, NO_TOPIC,                                                                                   id="neither topic nor value"),
    pytest.param({"topic": "string", "key": "string"},               False, "Required attribute 'value' not found",                                                     id="no value"),
    pytest.param({"value": "string", "topic": "int"},                False, "topic attribute unsupported type int. topic must be a(n) string",                          id="topic"),
    pytest.param({"value": "int", "key": "int"},                     True,  "key attribute unsupported type int. key must be a(n) string or binary",                    id="key before value"),
    pytest.param({"value": "string", "headers": "map<string,binary>"}, True, f"headers attribute unsupported type map<string,binary>. headers must be a(n) {HEADERS}", id="headers"),
    pytest.param({"value": "string", "partition": "bigint"},         True,  "partition attribute unsupported type bigint. partition must be a(n) int",                  id="partition"),
]
ALLOWED = [
    pytest.param({"value": "string"},                                                                                             True,  id="a value"),
    pytest.param({"value": "binary", "key": "binary", "headers": HEADERS, "partition": "int", "topic": "string"},                 False, id="all"),
    pytest.param({"value": "void", "key": "void"},                                                                                True,  id="nulls"),
    pytest.param({"value": "binary", "offset": "bigint", "timestamp": "timestamp", "timestampType": "int", "topic": "string"},    False, id="the source's rows"),
    pytest.param({"value": "binary", "offset": "bigint", "timestampType": "int", "leaderEpoch": "int", "topic": "string"},        False, id="a consumer's rows"),
]
# fmt: on


@pytest.mark.parametrize("options, name, expected", VALUES)
def test_an_option_is_taken(options, name, expected):
    assert getattr(parse(options), name) == expected


@pytest.mark.parametrize("options, words", BAD)
def test_an_option_is_refused(options, words):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options)

    check_sentence(caught.value.message, *words)


def test_a_cluster_is_needed():
    with pytest.raises(InvalidRequestError, match="Option 'cluster' must be specified"):
        parse({}, base={"topic": "t"})


@pytest.mark.parametrize("options, words", IN_STREAMS)
def test_an_option_is_refused_in_streams(options, words):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options, is_stream=True)

    check_sentence(caught.value.message, *words)


@pytest.mark.parametrize("kinds, has_topic, words", COLUMNS)
def test_columns_are_refused_in_the_order_and_words_of_kafkas_sink(kinds, has_topic, words):
    with pytest.raises(InvalidRequestError) as caught:
        check_columns(kinds.items(), has_topic=has_topic)

    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("kinds, has_topic", ALLOWED)
def test_columns_are_allowed(kinds, has_topic):
    check_columns(kinds.items(), has_topic=has_topic)

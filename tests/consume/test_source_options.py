"""What the options of a read may be: the texts are those of Spark's Kafka source."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.consume.options import AsOf, parse_source
from kafka_on_spark.consume.query_batch import Group, Offsets, Timestamps, TriggerLimits
from kafka_on_spark.consume.subscription import Assign, Subscribe, SubscribePattern
from kafka_on_spark.groups.offsets import EARLIEST, LATEST
from tests.bad_input.refusals import check_sentence
from tests.builders import by_name

CANARY = "canary-Hh2xPw7L"
SUBSCRIBED = {"cluster": "/c", "subscribe": "t"}
EXAMPLE = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got '
TIMES = 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}, got '


def parse(options, *, is_stream=False, base=SUBSCRIBED):
    """Parse options with the keys as Spark hands them over: lower-cased."""
    given = {name.lower(): text for name, text in {**base, **options}.items()}
    return parse_source(given, is_stream=is_stream)


# fmt: off
STRATEGIES = [
    pytest.param({"subscribe": "b, a ,,b"},                        Subscribe(("a", "b")),                          id="topics"),
    pytest.param({"assign": '{"b":[1,0,1],"a":[2]}'},              Assign({"a": (2,), "b": (0, 1)}),               id="partitions"),
    pytest.param({"subscribePattern": " f.* "},                    SubscribePattern("f.*"),                        id="pattern"),
]
NO_STRATEGIES = [
    pytest.param({},                                               "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign. See the docs for more details.", id="none"),
    pytest.param({"subscribe": "a", "assign": '{"a":[0]}'},        "Only one of the following options can be specified for Kafka source: subscribe, subscribepattern, assign. See the docs for more details.", id="two"),
    pytest.param({"subscribe": " , "},                             "No topics to subscribe to as specified value for option 'subscribe' is ' , '",     id="no topic"),
    pytest.param({"subscribePattern": "  "},                       "Pattern to subscribe is empty as specified value for option 'subscribePattern' is '  '", id="no pattern"),
    pytest.param({"assign": "a-0"},                                "No topicpartitions to assign as specified value for option 'assign' is 'a-0'",    id="no JSON object"),
    pytest.param({"assign": "{}"},                                 "No topicpartitions to assign as specified value for option 'assign' is '{}'",     id="nothing assigned"),
    pytest.param({"assign": '{"a":0}'},                            'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":0}',                      id="a number for a list"),
    pytest.param({"assign": '{"a":["0"]}'},                        'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":["0"]}',                  id="texts for numbers"),
    pytest.param({"assign": '{"a":[-1]}'},                         'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":[-1]}',                   id="a negative number"),
    pytest.param({"assign": '{"a":[0]'},                           'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":[0]',                     id="cut off"),
]
STARTS = [
    pytest.param({},                                                                  EARLIEST,                                    LATEST,  id="default"),
    pytest.param({"startingOffsets": "EARLIEST"},                                     EARLIEST,                                    EARLIEST, id="a word"),
    pytest.param({"startingOffsets": '{"t":{"0":3,"1":-2}}'},                         Offsets(by_name({"t": {0: 3, 1: EARLIEST}})),         None,    id="offsets"),
    pytest.param({"startingOffsets": "group", "kafka.group.id": "g"},                 Group("g", EARLIEST),                        Group("g", LATEST), id="a group's"),
    pytest.param({"startingTimestamp": " 5 "},                                        Timestamps(5),                               None,    id="one time"),
    pytest.param({"startingOffsetsByTimestamp": '{"t":{"0":7}}'},                     Timestamps(by_name({"t": {0: 7}})),                   None,    id="times"),
    pytest.param({"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "earliest"}, Timestamps(by_name({"t": {0: 7}})),        None,    id="times win over offsets"),
    pytest.param({"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "no JSON"}, Timestamps(5), None, id="one time wins over all"),
    pytest.param({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"}, Timestamps(5, is_latest_if_none=True), None,   id="or the latest"),
]
ENDS = [
    pytest.param({},                                                                  LATEST,                                               id="default"),
    pytest.param({"endingOffsets": '{"t":{"0":-1}}'},                                 Offsets(by_name({"t": {0: LATEST}})),                          id="offsets"),
    pytest.param({"endingTimestamp": "5", "endingOffsets": "earliest"},               Timestamps(5, is_latest_if_none=True),                id="one time wins"),
    pytest.param({"endingOffsetsByTimestamp": '{"t":{"0":7}}', "endingOffsets": "x"}, Timestamps(by_name({"t": {0: 7}}), is_latest_if_none=True),    id="times win"),
    pytest.param({"endingOffsetsByTimestamp": '{"t":{"0":7}}', "endingTimestamp": "9"}, Timestamps(9, is_latest_if_none=True),              id="one time wins over times"),
]
REFUSED = [
    pytest.param({"startingOffsets": "latest"},                    "starting offset can't be latest for batch queries on Kafka",                       id="latest start"),
    pytest.param({"endingOffsets": "earliest"},                    "ending offset can't be earliest for batch queries on Kafka",                       id="earliest end"),
    pytest.param({"startingOffsets": "first"},                     EXAMPLE + "first",                                                                  id="another word"),
    pytest.param({"startingOffsets": '{"t":{"0":-3}}'},            EXAMPLE + '{"t":{"0":-3}}',                                                         id="below -2"),
    pytest.param({"endingOffsets": "group", "kafka.group.id": "g"}, EXAMPLE + "group",                                                                 id="a group's end"),
    pytest.param({"startingOffsets": "group"},                     "startingOffsets can't be 'group' without a group: set kafka.group.id",             id="no group"),
    pytest.param({"startingTimestamp": "now"},                     "Expected a single long value, got now",                                            id="no time"),
    pytest.param({"startingTimestamp": "1_000"},                   "Expected a single long value, got 1_000",                                          id="a number of Python's alone"),
    pytest.param({"startingOffsetsByTimestamp": '{"t":{"0":"7"}}'}, TIMES + '{"t":{"0":"7"}}',                                                         id="a text for a time"),
    pytest.param({"endingOffsetsByTimestamp": "7"},                TIMES + "7",                                                                        id="one time for a JSON"),
    pytest.param({"startingOffsetsByTimestampStrategy": "none"},   "option 'startingOffsetsByTimestampStrategy' can't be 'none': error or latest",     id="strategy"),
    pytest.param({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'}, "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: The specified start offset 5 is greater than the end offset 4 for topic t partition 0.", id="start after end"),
    pytest.param({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":6}}'}, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: The specified start offset and end offset should have the same topic-partitions. Topic-partitions for start offset: ['t-0'], topic-partitions for end offset: ['t-1'].", id="other partitions"),
    pytest.param({"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'}, "UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP: The specified start timestamp 5 is greater than the end timestamp 4", id="start time after end time"),
    pytest.param({"cluster": ""},                                  "Option 'cluster' must be specified: give the cluster's metadata root",             id="no cluster"),
    pytest.param({"failOnDataLoss": "maybe"},                      "option 'failOnDataLoss' can't be 'maybe': true or false",                          id="no flag"),
    pytest.param({"includeHeaders": "1"},                          "option 'includeHeaders' can't be '1': true or false",                              id="headers"),
    pytest.param({"minPartitions": "0"},                           "minPartitions must be positive",                                                   id="no task"),
    pytest.param({"maxRecordsPerPartition": "-1"},                 "maxrecordsperpartition must be positive",                                          id="no records"),
    pytest.param({"maxOffsetsPerTrigger": "0"},                    "maxOffsetsPerTrigger must be positive",                                            id="no offsets"),
    pytest.param({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(8).", id="min above max"),
    pytest.param({"maxTriggerDelay": "soon"},                      "E.g. 50s, 100ms, or 250us.",                                                       id="no delay"),
    pytest.param({"startingOffset": "earliest"},                   "unknown option 'startingoffset': did you mean 'startingOffsets'?",                 id="unknown option"),
    pytest.param({"asOfTimestamp": "1", "asOfMetadataOffset": "1"}, "only one of the options asOfTimestamp and asOfMetadataOffset can be specified",   id="two moments"),
    pytest.param({"kafka.auto.offset.reset": "latest"},            "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingoffsets' to 'earliest' or 'latest'", id="auto.offset.reset"),
    pytest.param({"kafka.key.deserializer": "K"},                  "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys.", id="key.deserializer"),
    pytest.param({"kafka.value.deserializer": "V"},                "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values.", id="value.deserializer"),
    pytest.param({"kafka.enable.auto.commit": "true"},             "Kafka option 'enable.auto.commit' is not supported",                               id="enable.auto.commit"),
]
NOT_IN_STREAMS = [
    pytest.param({"endingOffsets": "latest"},                      "ending offset not valid in streaming queries",                                     id="offsets"),
    pytest.param({"endingOffsetsByTimestamp": "{}"},               "ending timestamp not valid in streaming queries",                                  id="times"),
    pytest.param({"endingTimestamp": "1"},                         "ending timestamp not valid in streaming queries",                                  id="one time"),
    pytest.param({"asOfTimestamp": "1"},                           "'asOfTimestamp' is not valid in streaming queries: read a batch",                  id="a moment"),
    pytest.param({"asOfMetadataOffset": "1"},                      "'asOfMetadataOffset' is not valid in streaming queries: read a batch",             id="an offset of the metadata"),
]
DELAYS = [("15m", 900_000), ("2min", 120_000), ("7", 7), ("50s", 50_000), ("100ms", 100), ("250us", 0), (" 1H ", 3_600_000), ("1d", 86_400_000)]
# fmt: on


@pytest.mark.parametrize("options, expected", STRATEGIES)
def test_what_is_read_is_named_in_one_of_three_ways(options, expected):
    assert parse(options, base={"cluster": "/c"}).subscription == expected


@pytest.mark.parametrize("options, sentence", NO_STRATEGIES)
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_what_is_read_must_be_named_once_and_well(options, sentence, is_stream):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options, base={"cluster": "/c"}, is_stream=is_stream)

    check_sentence(str(caught.value), sentence)


@pytest.mark.parametrize("options, expected, in_stream", STARTS)
def test_where_a_read_begins_has_sparks_precedence(options, expected, in_stream):
    assert parse(options).starting == expected
    assert parse(options, is_stream=True).starting == (in_stream or expected)


@pytest.mark.parametrize("options, expected", ENDS)
def test_where_a_batch_ends_has_sparks_precedence(options, expected):
    assert parse(options).ending == expected


@pytest.mark.parametrize("options, sentence", REFUSED)
def test_a_batch_is_refused_in_the_words_of_sparks_kafka_source(options, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options)

    check_sentence(str(caught.value), sentence)


@pytest.mark.parametrize("options, sentence", NOT_IN_STREAMS)
def test_a_stream_has_no_end(options, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options, is_stream=True)

    check_sentence(str(caught.value), sentence)


@pytest.mark.parametrize("text, delay_ms", DELAYS)
def test_a_delay_is_a_time_with_a_unit_or_milliseconds(text, delay_ms):
    assert parse({"maxTriggerDelay": text}, is_stream=True).limits.max_delay_ms == delay_ms


def test_numbers_flags_and_moments_are_read():
    options = parse(
        {
            "failOnDataLoss": "False",
            "includeHeaders": "TRUE",
            "minPartitions": "4",
            "maxRecordsPerPartition": "1000",
            "asOfTimestamp": "17",
            "kafka.client.rack": "a",
        }
    )

    assert (options.fails_on_data_loss, options.has_headers) == (False, True)
    assert (options.tasks_min, options.records_max) == (4, 1000)
    assert options.as_of == AsOf("asOfTimestamp", 17)
    assert options.client_rack == "a"
    assert parse({"asOfMetadataOffset": "3"}).as_of == AsOf("asOfMetadataOffset", 3)
    assert parse({"kafka.client.rack": "a", "client.rack": "b"}).client_rack == "b"


def test_options_of_kafkas_client_are_named_once_without_what_they_say():
    options = parse(
        {
            "kafka.bootstrap.servers": "broker:9092",
            "kafka.sasl.jaas.config": CANARY,
            "kafka.group.id": "g",
            "groupIdPrefix": "p",
            "kafkaConsumer.pollTimeoutMs": "1",
            "fetchOffset.numRetries": "3",
            "maxOffsetsPerTrigger": "5",
        }
    )

    assert options.warnings == (
        "options of Kafka's client mean nothing here and are ignored: fetchOffset.numRetries,"
        " groupIdPrefix, kafka.bootstrap.servers, kafka.sasl.jaas.config,"
        " kafkaConsumer.pollTimeoutMs",
        "maxOffsetsPerTrigger option ignored in batch queries",
    )
    assert options.group == "g"
    assert CANARY not in repr(options)


def test_the_defaults_are_sparks():
    options = parse({}, is_stream=True)

    assert options.fails_on_data_loss
    assert not options.has_headers
    assert options.limits == TriggerLimits(max_delay_ms=15 * 60_000)
    assert options.tasks_min is options.records_max is options.as_of is options.group is None
    assert options.warnings == ()

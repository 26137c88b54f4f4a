"""What the options of a read of the metadata log may be."""

import pytest

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.offsets.positions import EARLIEST, LATEST
from kafka_on_spark.query.options.metadata_options import parse_metadata_source
from kafka_on_spark.query.options.source_options import SOURCE_OPTIONS
from tests.bad_input.refusals import check_sentence

BASE = {"cluster": "/m1,/m2", "metadata": "true"}


def parse(options, *, is_stream=False, base=BASE):
    """Parse options with the keys as Spark hands them over: lower-cased."""
    given = {name.lower(): text for name, text in {**base, **options}.items()}
    return parse_metadata_source(given, is_stream=is_stream)


# fmt: off
VALUES = [
    pytest.param({},                                   False, "starting",    EARLIEST,            id="a batch has all"),
    pytest.param({},                                   True,  "starting",    LATEST,              id="a stream has what comes"),
    pytest.param({"startingOffsets": "Earliest"},      True,  "starting",    EARLIEST,            id="a word"),
    pytest.param({"startingOffsets": " 23 "},          True,  "starting",    23,                  id="an offset"),
    pytest.param({"startingOffsets": "0"},             False, "starting",    0,                   id="the first offset"),
    pytest.param({},                                   False, "ending",      LATEST,              id="to the end"),
    pytest.param({"endingOffsets": "42"},              False, "ending",      42,                  id="to an offset"),
    pytest.param({"maxOffsetsPerTrigger": "5"},        True,  "records_max", 5,                   id="a bound"),
    pytest.param({"maxOffsetsPerTrigger": "5"},        False, "warnings",    ("maxOffsetsPerTrigger option ignored in batch queries",), id="a bound of a batch"),
    pytest.param({"storage.aws_region": "x"},          True,  "storage",     {"aws_region": "x"}, id="storage"),
]
REFUSED = [
    pytest.param({"startingOffsets": '{"t":{"0":3}}'}, "'startingOffsets' can't be '{\"t\":{\"0\":3}}' where 'metadata' is true: give earliest, latest or an offset", id="offsets of topics"),
    pytest.param({"startingOffsets": "-1"},            "'startingOffsets' can't be '-1'",          id="below the first"),
    pytest.param({"startingOffsets": "1_0"},           "'startingOffsets' can't be '1_0'",         id="an offset of Python's alone"),
    pytest.param({"startingOffsets": "group"},         "'startingOffsets' can't be 'group'",       id="a group's"),
    pytest.param({"startingOffsets": "latest"},        "'startingOffsets' can't be 'latest' for a batch", id="nothing"),
    pytest.param({"endingOffsets": "earliest"},        "'endingOffsets' can't be 'earliest' where 'metadata' is true: give latest or an offset", id="an end before all"),
    pytest.param({"startingOffsets": "5", "endingOffsets": "4"}, "can't be 5 with 'endingOffsets' at 4", id="the end before the start"),
    pytest.param({"maxOffsetsPerTrigger": "0"},        "maxOffsetsPerTrigger must be positive",    id="no record"),
    pytest.param({"cluster": ""},                      "Option 'cluster' must be specified",       id="no cluster"),
    pytest.param({"startingOffset": "1"},              "unknown option 'startingoffset': did you mean 'startingOffsets'?", id="unknown"),
]
MEANINGLESS = [
    *sorted({*SOURCE_OPTIONS.values()} - {"cluster", "metadata", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger"}),
    "groupIdPrefix", "kafka.group.id", "kafka.client.rack", "kafka.bootstrap.servers", "kafkaConsumer.pollTimeoutMs",
]
# fmt: on


@pytest.mark.parametrize("options, is_stream, name, expected", VALUES)
def test_a_read_of_the_metadata_has_few_options(options, is_stream, name, expected):
    assert getattr(parse(options, is_stream=is_stream), name) == expected


@pytest.mark.parametrize("options, sentence", REFUSED)
def test_what_they_can_not_be_is_said_in_a_sentence(options, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        parse(options)

    check_sentence(str(caught.value), sentence)


@pytest.mark.parametrize("name", MEANINGLESS)
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_an_option_that_means_nothing_is_refused(name, is_stream):
    with pytest.raises(InvalidRequestError) as caught:
        parse({name: "true"}, is_stream=is_stream)

    words = [f"'{name}' means nothing where 'metadata' is true", "leave it out", "startingOffsets"]
    # Spark lower-cases the names of an option of Kafka's client, as of all.
    check_sentence(str(caught.value), *words)


def test_a_stream_has_no_end():
    with pytest.raises(InvalidRequestError) as caught:
        parse({"endingOffsets": "5"}, is_stream=True)

    check_sentence(str(caught.value), "ending offset not valid in streaming queries")


def test_no_credential_is_shown():
    assert "canary" not in repr(parse({"storage.aws_secret_access_key": "canary"}))

"""What an append answers: where its records stand, or the first error with what became of each."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, RequestTimedOutError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.produce.append_results import append_results
from kafka_on_spark.produce.stages import AnsweredPart
from tests.builders import TOPIC, TOPIC_ID

AWAY, LATE = KafkaStorageError("the root is away"), RequestTimedOutError("too late")
TOPICS = {TOPIC_ID: TOPIC}


def outcome(number, error=None, *, is_duplicate=False):
    key = PartitionKey(TOPIC_ID, number)
    if error is not None:
        return AnsweredPart(key=key, error=error)
    return AnsweredPart(
        key=key,
        base_offset=Offset(10 * number),
        record_count=number,
        is_duplicate=is_duplicate,
    )


def test_a_result_is_told_in_one_line():
    parts = [outcome(at, is_duplicate=at == 2) for at in range(1, 19)]
    [result] = append_results(TOPICS, parts, {}, is_waited_for=True)

    assert str(result).startswith(
        f"169 records appended to {TOPIC}, 2 found as appended before; offsets by partition:"
        " 1: 10-10, 2: 20-21, "
    )
    assert str(result).endswith(", 16: 160-175, and 2 partitions more")


@pytest.mark.parametrize(
    "duplicates, expected", [([], False), ([True, False], False), ([True, True], True)]
)
def test_an_append_is_a_duplicate_where_all_of_it_stood_in_the_log(duplicates, expected):
    outcomes = [outcome(at, is_duplicate=each) for at, each in enumerate(duplicates, 1)]
    [result] = append_results(TOPICS, outcomes, {}, is_waited_for=True)

    assert result.is_duplicate is expected


@pytest.mark.parametrize(
    "second, errors",
    [(AWAY, None), (LATE, {1: "KafkaStorageError", 2: "RequestTimedOutError"})],
    ids=["of one kind", "of two kinds"],
)
def test_the_first_error_says_what_became_of_each_partition(second, errors):
    with pytest.raises(KafkaStorageError, match="the root is away") as caught:
        append_results(
            TOPICS, [outcome(0), outcome(1, AWAY), outcome(2, second)], {}, is_waited_for=True
        )

    context = caught.value.context
    assert (context["topic"], context["failed"], context["acknowledged"]) == (TOPIC, [1, 2], [0])
    assert context.get("errors") == errors


def test_with_acks_0_no_error_is_raised():
    [result] = append_results(TOPICS, [outcome(1, AWAY)], {}, is_waited_for=False)

    assert result.partitions[1].base_offset is None

"""Where two logs stop being the same: a table, written as logs are elsewhere."""

from dataclasses import replace

import pytest

from kafka_on_spark.inspect.replicas import differs
from tests.builders import log, with_merged

# fmt: off
CASES = [
    pytest.param("0:ab",  "0:ab",  None,                             id="same"),
    pytest.param("",      "",      None,                             id="both empty"),
    pytest.param("0:aab", "0:aa",  "lacks the batch at offset 2",    id="shorter"),
    pytest.param("0:aa",  "0:aab", "has more: the batch at offset 2", id="longer"),
    pytest.param("0:ab",  "0:ac",  "another batch at offset 1",      id="another append"),
    pytest.param("0:a",   "1:a",   "another batch at offset 0",      id="another epoch"),
    pytest.param("0:aab", "0:abb", "another batch at offset 0",      id="another length"),
]
# fmt: on


# fmt: off
MERGED = [
    pytest.param("0:aabb",  "0:aabb",  None,                              id="same"),
    pytest.param("0:aabbc", "0:aabbd", "another batch below offset 5",    id="another behind"),
    pytest.param("0:aabb",  "0:aaxx",  "another batch below offset 4",    id="another inside"),
    pytest.param("0:aabbc", "0:aabb",  "lacks the batch at offset 4",     id="shorter"),
    pytest.param("0:aabb",  "0:aabbc", "has more: the batch at offset 4", id="longer"),
]
# fmt: on


@pytest.mark.parametrize("first,other,expected", MERGED)
def test_replicas_that_merged_differently_are_compared_at_the_borders_that_both_have(
    first, other, expected
):
    merged, plain = with_merged(log(first), 0, 4), log(other)

    assert differs(merged.batches, plain.batches) == expected
    if expected is None:
        assert differs(plain.batches, merged.batches) is None
        assert differs(merged.batches, with_merged(plain, 0, 4, name="n").batches) is None


def test_merged_segments_of_one_span_have_the_same_content():
    state = with_merged(log("0:aabb"), 0, 4)
    [merged] = state.batches

    found = differs(state.batches, (replace(merged, content_digest=1),))

    assert found == "another batch below offset 4"


@pytest.mark.parametrize("first,other,expected", CASES)
def test_first_difference_is_named(first, other, expected):
    found = differs(log(first).batches, log(other).batches)

    assert found == expected

"""Where two logs stop being the same: a table, written as logs are elsewhere."""

import pytest

from kafka_on_spark.inspect.replicas import differs
from tests.builders import log

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


@pytest.mark.parametrize("first,other,expected", CASES)
def test_first_difference_is_named(first, other, expected):
    found = differs(log(first).batches, log(other).batches)

    assert found == expected

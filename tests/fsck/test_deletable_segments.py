"""When a segment may be deleted: once no commit can name it."""

from itertools import product

import pytest

from kafka_on_spark.audit.metadata.orphans import is_deletable

# fmt: off
FILES = [  # epoch named  fences      expected
    pytest.param(2, False, [3, 4],    True,  id="all-replicas-are-fenced-above"),
    pytest.param(2, True,  [3, 4],    False, id="some-log-names-it"),
    pytest.param(2, False, [3, 2],    False, id="one-is-fenced-at-its-epoch"),
    pytest.param(2, False, [3, 1],    False, id="one-is-fenced-below"),
    pytest.param(2, False, [3, None], False, id="one-is-not-fenced"),
]
# fmt: on


@pytest.mark.parametrize("epoch, named, fences, expected", FILES)
def test_file_may_be_deleted_once_no_commit_can_name_it(epoch, named, fences, expected):
    assert is_deletable(epoch, is_named=named, fences=fences) is expected


def test_what_may_be_deleted_once_may_always_be():
    """Fences only rise: no later fence takes a permission back."""
    checked = 0
    for epoch, first, second in product(range(3), range(4), range(4)):
        if is_deletable(epoch, is_named=False, fences=[first, second]):
            for later, latest in product(range(first, 4), range(second, 4)):
                checked += 1
                assert is_deletable(epoch, is_named=False, fences=[later, latest])
    assert checked == 46

r"""`subscribePattern` takes Python's syntax; what is not is refused with Python's own reason."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.consume.subscription import compile_pattern
from tests.bad_input.refusals import check_sentence

# fmt: off
BROKEN = [
    (r"(a",                     "missing ), unterminated subpattern"),
    (r"[a",                     "unterminated character set"),
    (r"*",                      "nothing to repeat"),
    (r"(?<=a*)b",               "look-behind requires fixed-width pattern"),
    (r"[a--b]",                 "Possible set difference"),
    (r"[a-z&&[^x]]+",           "Possible set intersection"),
    (r"[[a-d]m-p]",             "Possible nested set"),
    (r"(?<all>.+)",             "unknown extension ?<a"),
    (r"\p{Alpha}+",             r"bad escape \p"),
    (r"a(?i)b",                 "global flags not at the start"),
]
# fmt: on


@pytest.mark.parametrize("pattern, why", BROKEN)
def test_a_pattern_that_is_none_is_refused(pattern, why):
    with pytest.raises(InvalidRequestError) as caught:
        compile_pattern(pattern)

    given = f"a pattern of topics can't be {pattern!r}"
    check_sentence(str(caught.value), given, why, "the syntax of Python's re module")

r"""`subscribePattern`: Python's syntax; what only Java's has is refused by its name."""

import pytest

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.topic_pattern import compile_pattern
from tests.bad_input.refusals import check_sentence

NAMES = ("flights", "flights-2013", "weather", "a.b", "ab")

# fmt: off
MATCHES = [
    (r"flights",                ["flights"]),
    (r"flights.*",              ["flights", "flights-2013"]),
    (r"light",                  []),
    (r"weather|ab",             ["weather", "ab"]),
    (r"a\.b",                   ["a.b"]),
    (r"(?i)FLIGHTS",            ["flights"]),
    (r"(?:weather|a[.b]+)",     ["weather", "a.b", "ab"]),
    (r"(?P<all>.+)",            list(NAMES)),
    (r"(?!flights).*",          ["weather", "a.b", "ab"]),
    (r"(?>flights)-\d++",       ["flights-2013"]),
    (r"[]\[.a-z]+",             ["flights", "weather", "a.b", "ab"]),
    (r"[^]x]+",                 list(NAMES)),
    (r"a[&]?b",                 ["ab"]),
    (r"[a][b]",                 ["ab"]),
]
JAVAS = [
    (r"\Qa.b\E",                r"quoting \Q...\E",                             "escape each character"),
    (r"\p{Alpha}+",             r"a property class \p{...}",                    "a class such as [a-z]"),
    (r"\P{Lower}",              r"a property class \P{...}",                    "a class such as [^a-z]"),
    (r"[\p{Alpha}]",            r"a property class \p{...}",                    "a class such as [a-z]"),
    (r"a\h",                    r"horizontal white space \h",                   r"write \s instead"),
    (r"a\H",                    r"horizontal white space \H",                   r"write \S instead"),
    (r"a\V",                    r"vertical white space \V",                     r"write \S instead"),
    (r"a\R",                    r"a line break \R",                             "topic names have none"),
    (r"\X",                     r"a grapheme \X",                               "write . instead"),
    (r"\Gflights",              r"the end of the match before \G",              "matched as a whole"),
    (r"flights\z",              r"the end of input \z",                         "matched as a whole"),
    (r"(?P<a>x)\k<a>",          r"a back reference \k<name>",                   "(?P=name)"),
    (r"\e",                     r"the escape character \e",                     r"\x1b"),
    (r"\cA",                    r"a control character \cX",                     r"\x and its code"),
    (r"\0101",                  r"an octal character \0n",                      r"\x and its code"),
    (r"\x{61}",                 r"a code point \x{...}",                        r"\x and two digits"),
    (r"\b{g}a",                 r"a boundary \b{g}",                            r"write \b instead"),
    (r"(?<all>.+)",             "a named group (?<name>...)",                   "(?P<name>...)"),
    (r"(?d)a",                  "the flags (?d)",                               "(?i), (?s) or (?x)"),
    (r"(?U:a)",                 "the flags (?U)",                               "(?i), (?s) or (?x)"),
    (r"a(?i)b",                 "flags in the middle (?i)",                     "(?i:...)"),
    (r"a(?-i)b",                "flags in the middle (?-i)",                    "(?i:...)"),
    (r"[a-z&&[^x]]+",           "an intersection of classes [..&&..]",          "a look-ahead (?=...)"),
    (r"[a-d[m-p]]+",            "a class in a class [..[..]]",                  r"a bracket itself as \["),
    (r"[][a]+",                 "a class in a class [..[..]]",                  r"a bracket itself as \["),
    (r"[^][a]+",                "a class in a class [..[..]]",                  r"a bracket itself as \["),
    (r"ab[][a]",                "a class in a class [..[..]]",                  r"a bracket itself as \["),
    (r"ab[^][a]",               "a class in a class [..[..]]",                  r"a bracket itself as \["),
]
BROKEN = [
    (r"(a",                     "missing ), unterminated subpattern"),
    (r"[a",                     "unterminated character set"),
    (r"*",                      "nothing to repeat"),
    (r"(?<=a*)b",               "look-behind requires fixed-width pattern"),
    (r"[a--b]",                 "Possible set difference"),
]
# fmt: on


@pytest.mark.parametrize("pattern, names", MATCHES)
def test_a_pattern_matches_whole_names(pattern, names):
    assert [name for name in NAMES if compile_pattern(pattern).fullmatch(name)] == names


@pytest.mark.parametrize("pattern, name, instead", JAVAS)
def test_what_only_java_has_is_refused_by_its_name(pattern, name, instead):
    with pytest.raises(InvalidRequestError) as caught:
        compile_pattern(pattern)

    given = f"a pattern of topics can't be {pattern!r}"
    check_sentence(str(caught.value), given, f"{name} is Java's syntax", instead)


@pytest.mark.parametrize("pattern, why", BROKEN)
def test_a_pattern_that_is_none_is_refused(pattern, why):
    with pytest.raises(InvalidRequestError) as caught:
        compile_pattern(pattern)

    given = f"a pattern of topics can't be {pattern!r}"
    check_sentence(str(caught.value), given, why, "the syntax of Python's re module")

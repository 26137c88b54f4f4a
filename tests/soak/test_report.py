"""Whether a soak stayed as it was: what of it is judged, and against which tenth."""

import pytest

from tests.rigs.soaking.report import SoakReport, Tenth, growths
from tests.rigs.soaking.watching import JVM, PLAIN, WORKERS, descriptors


def tenths(name, *values):
    return [Tenth({} if value is None else {name: value}, {}) for value in values]


FLAT = [10.0] * 9

# fmt: off
GROWTHS = [
    pytest.param("files",         [99.0, *FLAT],                 [],          id="the first tenth counts for nothing"),
    pytest.param("files",         [1.0, 10.0, 12.5, *FLAT[2:]],  [],          id="at the bound is within it"),
    pytest.param("files",         [1.0, 10.0, 12.6, *FLAT[2:]],  [(3, 1.26)], id="above it is not"),
    pytest.param("files",         [1.0, 10.0, 13.0, *FLAT[3:], 14.0], [(10, 1.4)], id="the worst tenth is named"),
    pytest.param("a: p99 (ms)",   [1.0, 10.0, 20.0, *FLAT[2:]],  [],          id="p99 may double"),
    pytest.param("a: p99 (ms)",   [1.0, 10.0, 30.0, *FLAT[2:]],  [(3, 3.0)], id="and no more"),
    pytest.param("files",         [1.0, 10.0, 1.0, *FLAT[2:]],   [],          id="to fall is no growth"),
    pytest.param("files",         [1.0, 0.0, 0.0, *[0.0] * 7],   [],          id="nothing stays nothing"),
    pytest.param("files",         [1.0, 0.0, 1.0, *[0.0] * 7],   [(3, float("inf"))], id="something from nothing"),
    pytest.param("files",         [1.0, 10.0, None, *FLAT[2:]],  [(0, 0.0)],  id="a gap is a finding"),
    pytest.param("files",         [None] * 10,                   [(0, 0.0)],  id="so is nothing at all"),
]
# fmt: on


@pytest.mark.parametrize("name, values, expected", GROWTHS)
def test_each_tenth_is_held_against_the_second(name, values, expected):
    found = growths(tenths(name, *values), [name])

    assert [(each.tenth, each.ratio) for each in found] == expected
    assert all(each.sentence.startswith(name) for each in found)


def test_beside_other_work_each_tenth_is_held_against_the_fifth():
    values = [{descriptors(kind): 69.0 for kind in (PLAIN, JVM, WORKERS)}] * 10
    later = {descriptors(kind): 89.0 for kind in (PLAIN, JVM, WORKERS)}
    grown = {descriptors(kind): 120.0 for kind in (PLAIN, JVM, WORKERS)}

    def tenths_grown(*series, **judged):
        found = SoakReport(
            minutes=5.0,
            tenths=[Tenth(each, {}) for each in series],
            findings=(),
            errors=(),
            **judged,
        )
        return {(each.name, each.tenth) for each in found.growths if each.tenth}

    warm = [*values[:3], *[later] * 7]
    names = [descriptors(kind) for kind in (PLAIN, JVM, WORKERS)]
    assert tenths_grown(*warm) == {(name, 4) for name in names}
    assert tenths_grown(*warm, times_are_judged=False) == set()
    assert tenths_grown(*warm[:9], grown, times_are_judged=False) == {(name, 10) for name in names}


def report(values, **fields):
    given = {"findings": (), "errors": ()}
    given["minutes"] = 20.0
    return SoakReport(tenths=[Tenth(values, {})] * 10, **(given | fields))


def whole():
    return dict.fromkeys(report({}).judged, 1.0)


def test_run_that_stayed_as_it_was_ends_with_0():
    assert report(whole()).exit_code == 0
    assert "It stayed as it was." in report(whole()).text()


def test_finding_or_a_missing_series_ends_with_1():
    assert report(whole(), findings=("a record is gone",)).exit_code == 1
    assert report(whole() | {"files of data": 0.0}, errors=("tried again",)).exit_code == 0
    assert report({"files": 1.0}).exit_code == 1


def test_all_files_are_judged_in_a_long_run_and_commits_in_each():
    commits = "commit files of one table, at most"

    assert not {"files of data", "bytes of data (MiB)"} & {*report({}, minutes=19.0).judged}
    assert not {"files", "bytes (MiB)"} & {*report({}).judged}
    assert {"files", "bytes (MiB)"} <= {*report({}, minutes=60.0).judged}
    assert report(whole() | {commits: 2000.0}).exit_code == 0
    assert report(whole() | {commits: 2001.0}).exit_code == 1


def test_times_are_not_judged_where_they_are_only_shown():
    values = {name: each for name, each in whole().items() if "(ms)" not in name}

    assert report(values).exit_code == 1
    assert report(values, times_are_judged=False).exit_code == 0

"""Which files in a replica's folder may be deleted, and when."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.unnamed_files import (
    CLOCK_ERROR_MS,
    CleaningTimes,
    Fate,
    FoundFile,
    TableFiles,
    judge,
    newest_staged_at_ms,
)
from tests.builders import segment

NOW = 10**12
DELAY, APPEND = 3_600_000, 120_000
TIMES = CleaningTimes(now_ms=NOW, delete_delay_ms=DELAY, append_ms=APPEND)
LONG_AGO = NOW - 10 * DELAY


def name(epoch):
    return segment("a", epoch=epoch).file_name


def table(fence=5, *, named=(), removed=None):
    return TableFiles(named=set(named), fence=fence, removed_at_ms=removed or {})


# fmt: off
FILES = [  # name epoch, fence, named, removed at,    written at,      fate
    pytest.param(5, 5, True,  None,         LONG_AGO,        Fate.STAYS,  id="named"),
    pytest.param(3, 5, True,  None,         LONG_AGO,        Fate.STAYS,  id="named-under-an-older-epoch"),
    pytest.param(5, 5, False, LONG_AGO,     LONG_AGO,        Fate.GOES,   id="removed"),
    pytest.param(5, 5, False, NOW - 1,      LONG_AGO,        Fate.WAITS,  id="removed-just-now"),
    pytest.param(3, 5, False, NOW - 1,      LONG_AGO,        Fate.WAITS,  id="removed-just-now-under-an-older-epoch"),
    pytest.param(3, 5, False, NOW - DELAY,  LONG_AGO,        Fate.GOES,   id="removed-for-exactly-the-delay"),
    pytest.param(4, 5, False, None,         LONG_AGO,        Fate.GOES,   id="staged-under-an-older-epoch"),
    pytest.param(4, 5, False, None,         NOW - APPEND,    Fate.WAITS,  id="staged-lately-under-an-older-epoch"),
    pytest.param(5, 5, False, None,         LONG_AGO,        Fate.ORPHAN, id="staged-under-this-epoch"),
    pytest.param(5, 5, False, None,         NOW - 1,         Fate.WAITS,  id="staged-just-now"),
    pytest.param(6, 5, False, None,         LONG_AGO,        Fate.STAYS,  id="staged-under-an-epoch-to-come"),
    pytest.param(0, None, False, None,      LONG_AGO,        Fate.STAYS,  id="never-fenced"),
]
# fmt: on


@pytest.mark.parametrize("epoch, fence, is_named, removed_at_ms, written_at_ms, fate", FILES)
def test_what_becomes_of_a_segment(epoch, fence, is_named, removed_at_ms, written_at_ms, fate):
    file = FoundFile(name(epoch), 7, written_at_ms)
    removed = {} if removed_at_ms is None else {file.name: removed_at_ms}
    files = table(fence, named=[file.name] if is_named else [], removed=removed)

    assert judge(file, files, TIMES) is fate


# fmt: off
PRODUCERS = [  # number, the one that counts, when they were written, fate
    pytest.param(3, 4, {3: 0, 4: LONG_AGO},               Fate.GOES,  id="below-the-one-that-counts"),
    pytest.param(3, 4, {3: 0, 4: NOW - 1},                Fate.WAITS, id="below-one-that-counts-just-now"),
    pytest.param(3, 9, {3: 0, 4: LONG_AGO, 9: NOW - 1},   Fate.GOES,  id="followed-long-ago"),
    pytest.param(4, 9, {3: 0, 4: LONG_AGO, 9: NOW - 1},   Fate.WAITS, id="followed-just-now"),
    pytest.param(4, 4, {4: LONG_AGO},                     Fate.STAYS, id="the-one-that-counts"),
    pytest.param(5, 4, {4: LONG_AGO, 5: 0, 6: LONG_AGO},  Fate.STAYS, id="above-it"),
    pytest.param(3, None, {3: 0, 4: LONG_AGO},            Fate.STAYS, id="none-counts"),
]
# fmt: on


@pytest.mark.parametrize("number, counting, written, fate", PRODUCERS)
def test_what_becomes_of_a_producer_state_file(number, counting, written, fate):
    files = TableFiles(
        named=set(),
        fence=5,
        removed_at_ms={},
        producers=counting,
        producers_written_at_ms=written,
    )

    assert judge(FoundFile(producers_file_name(number), 7, 0), files, TIMES) is fate


@pytest.mark.parametrize(
    "other", ["_0123.tmp", "part-0.parquet", "_last", "5-a.parquet", "../5-a-b.parquet"]
)
def test_what_is_no_replicas_file_stays(other):
    files = table(9, removed={other: 0})

    assert judge(FoundFile(other, 7, 0), files, TIMES) is Fate.STAYS


def test_what_may_go_once_may_go_at_any_later_time():
    """Fences only rise, no path is added again, and a named path that is removed has a tombstone."""
    checked = 0
    for epoch, fence, is_removed in product(range(3), range(4), (True, False)):
        file = FoundFile(name(epoch), 7, 0)
        removed = {file.name: 0} if is_removed else {}
        if judge(file, table(fence, removed=removed), TIMES) is not Fate.GOES:
            continue
        for later, still in product(range(fence, 5), (removed, {})):
            if still == {} and is_removed and later <= epoch:
                continue  # the tombstone is forgotten: then it is an orphan until the next fence
            checked += 1
            assert judge(file, table(later, removed=still), TIMES) is Fate.GOES
    assert checked == 106


@pytest.mark.parametrize("fate_of_epoch, fate", [(4, Fate.GOES), (5, Fate.ORPHAN)])
def test_a_time_from_the_far_future_says_nothing(fate_of_epoch, fate):
    file = FoundFile(name(fate_of_epoch), 7, NOW + CLOCK_ERROR_MS + 1)

    assert judge(file, table(), TIMES) is fate


MINUTE = 60_000
BEGAN = NOW - 75 * MINUTE


# fmt: off
STAGED = [  # minutes since the first of two files, the second 70 minutes later; delay; fate of both
    pytest.param(75,  DELAY, Fate.WAITS, id="its-append-may-go-on"),
    pytest.param(129, DELAY, Fate.WAITS, id="within-the-delay-of-the-newest"),
    pytest.param(131, DELAY, Fate.GOES,  id="nothing-was-staged-for-the-delay"),
    pytest.param(129, 0,     Fate.WAITS, id="readers-have-no-time-and-appends-have"),
    pytest.param(131, 0,     Fate.GOES,  id="nor-have-appends"),
]
# fmt: on


@pytest.mark.parametrize("minutes, delay_ms, fate", STAGED)
def test_what_an_append_staged_first_stays_as_long_as_what_it_staged_last(minutes, delay_ms, fate):
    times = CleaningTimes(
        now_ms=BEGAN + minutes * MINUTE, delete_delay_ms=delay_ms, append_ms=APPEND
    )
    files = [
        FoundFile(segment(each, epoch=5).file_name, 7, BEGAN + after * MINUTE)
        for each, after in (("a", 0), ("b", 70))
    ]
    staged = replace(table(6), staged_at_ms=newest_staged_at_ms(files, (), times))

    assert {judge(file, staged, times) for file in files} == {fate}


def test_what_counts_as_staged_last_is_no_file_of_another_epoch_nor_removed_nor_of_a_wrong_clock():
    times = [LONG_AGO, NOW - 5, NOW - 4, NOW + CLOCK_ERROR_MS + 1]
    epochs = [4, 5, 4, 4]
    files = [
        FoundFile(segment(f"f{place}", epoch=epoch).file_name, 7, at_ms)
        for place, (epoch, at_ms) in enumerate(zip(epochs, times, strict=True))
    ]

    staged = newest_staged_at_ms(files, {files[2].name}, TIMES)

    assert staged == {4: LONG_AGO, 5: NOW - 5}
    files_of_4 = replace(table(), staged_at_ms=staged)
    assert judge(files[0], files_of_4, TIMES) is Fate.GOES

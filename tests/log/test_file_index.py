"""A log finds a file's batch by its index as by a look at every batch, however it has changed."""

from dataclasses import replace
from random import Random

import pytest

from kafka_on_spark.log import operations
from kafka_on_spark.log import state as state_module
from kafka_on_spark.log.batch import uuid_in_name
from kafka_on_spark.log.state import FileIndex
from tests.builders import batch, log, staged, with_merged

MERGED_AT_ONCE = 3


@pytest.fixture(autouse=True)
def small_logs_are_indexed(monkeypatch):
    monkeypatch.setattr(state_module, "UNINDEXED_MAX", 4)


def appended(state, number):
    append = staged(f"f{number}", "1 2" if number % 3 else "1")
    return state.apply(operations.append(state, append, leader_epoch=0, now_ms=1))


def merged_at(state, place):
    run = state.batches[place : place + MERGED_AT_ONCE]
    return with_merged(state, run[0].base_offset, run[-1].end_offset, name=f"m{state.version}")


def cut_at(state, place):
    fenced = state.batches[place].base_offset
    change = operations.adopt(
        replace(state, leader_epoch=-1), leader_epoch=0, truncate_to=fenced, floor=0
    )
    return state.apply(change)


def dropped_below(state, place):
    return state.apply(operations.advance_log_start(state, state.batches[place].base_offset))


def looked_for(state, uuids):
    """Return the places of the batches that have any of some files, by a look at every batch."""
    return [
        place
        for place in range(len(state.batches) - 1, -1, -1)
        if any(uuid_in_name(each.file_name) in uuids for each in state.batches[place].segments)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_a_file_is_found_after_any_history(seed):
    random = Random(seed)
    state, known = log(), ["never"]

    for number in range(60):
        change = random.choice([merged_at, cut_at, dropped_below, *[None] * 9])
        if change is None or len(state.batches) < MERGED_AT_ONCE + 1:
            state = appended(state, number)
        else:
            state = change(state, random.randrange(1, len(state.batches) - MERGED_AT_ONCE + 1))
        known += [each.uuid for part in state.batches[-1:] for each in part.segments]
        for uuids in [{random.choice(known)}, set(random.choices(known, k=3))]:
            places = list(state.files.places_of(uuids, state.batches))
            assert places == looked_for(state, uuids)
            assert list(state.batches_with(uuids)) == [state.batches[each] for each in places]


def test_two_batches_with_one_file_are_both_found():
    """As in a log that took an append twice: the newer one is found first, and the older, too."""
    twice = [batch("a", 0), *(batch(each, 1) for each in "bcdef"), batch("a", 6)]
    index = FileIndex().grown(twice)

    assert (index.count, index.others) == (7, (0,))
    assert list(index.places_of({twice[0].segments[0].uuid}, twice)) == [6, 0]

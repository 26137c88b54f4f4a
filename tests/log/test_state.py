"""A log that does not add up is corrupt; questions about offsets are answered from batches."""

import json
from dataclasses import fields, replace
from hashlib import blake2b
from random import Random

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import NO_CHAIN, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log import state as state_module
from kafka_on_spark.log.batch import Batch, ProducerStamp
from kafka_on_spark.log.state import (
    batch_digests,
    check_chain,
    check_log,
    from_halves,
    halves,
)
from tests.builders import TOPIC_ID, batch, log, staged, stamp, with_merged

GOOD = log("0:aab 1:cc")


def with_batches_changed(state, place, **fields):
    """Return `state` with one batch changed, as bit rot or a bug would leave it."""
    batches = list(state.batches)
    batches[place] = replace(batches[place], **fields)
    return replace(state, batches=tuple(batches))


# fmt: off
CASES = [
    pytest.param(with_batches_changed(GOOD, 0, record_count=3),                 id="torn-first-batch"),
    pytest.param(with_batches_changed(GOOD, 2, record_count=1),                 id="batch-with-more-records-than-it-says"),
    pytest.param(with_batches_changed(GOOD, 1, base_offset=1),                  id="overlap"),
    pytest.param(replace(GOOD, batches=GOOD.batches[::2]),                      id="gap"),
    pytest.param(replace(GOOD, batches=GOOD.batches[1:]),                       id="first-batch-missing"),
    pytest.param(replace(GOOD, leader_epoch=0),                                 id="batch-of-a-leadership-that-was-not-adopted"),
    pytest.param(replace(GOOD, batches=GOOD.batches[:-1]),                      id="last-batch-missing"),
    pytest.param(replace(GOOD, batches=()),                                     id="all-batches-missing"),
    pytest.param(replace(GOOD, log_end_offset=Offset(6)),                       id="end-above"),
    pytest.param(replace(GOOD, log_end_offset=Offset(4)),                       id="end-inside-a-batch"),
    pytest.param(replace(log(base=4), log_start_offset=Offset(5)),              id="start-above-end"),
    pytest.param(replace(log(), log_start_offset=Offset(-7), log_end_offset=Offset(-7)), id="below-the-first-offset"),
    pytest.param(replace(GOOD, log_start_offset=Offset(-7)),                    id="start-below-the-first-offset"),
    pytest.param(replace(GOOD, batches=(batch("a", 0, "2"), *GOOD.batches)),    id="batch-twice"),
]
# fmt: on


@pytest.mark.parametrize("state", CASES)
def test_log_that_does_not_add_up_is_corrupt(state):
    with pytest.raises(CorruptLogError):
        check_log(state)


def test_epoch_at_every_offset():
    state = log("0:aab 1:cc", base=10)

    assert [state.epoch_at(each) for each in range(9, 16)] == [None, 0, 0, 0, 1, 1, None]


def test_batches_between_are_those_that_hold_any_of_the_range():
    """Every range of a log of three batches, against the batches' own offsets."""
    state, checked = log("0:aab 1:cc", base=1), 0
    for start in range(8):
        for end in range(start + 1, 8):
            checked += 1
            assert state.batches_between(start, end) == tuple(
                each for each in state.batches if each.base_offset < end and each.end_offset > start
            )
    assert checked == 28


ONE = batch("a", 4, "2 1", epoch=3, producer=stamp(1, producer='p"\u00fc\ud800'))


def by_the_book(before: str, given: Batch) -> list[str]:
    """Return the digests as the format describes them, by a JSON encoder."""
    made, base = [], given.base_offset
    producer = given.producer
    for segment in given.segments:
        end = base + segment.record_count
        header = [
            before, TOPIC_ID, 7, base, end, given.base_offset, given.record_count,
            given.partition_count, given.leader_epoch,
            None if producer is None else producer.producer_id,
            None if producer is None else producer.producer_epoch,
            None if producer is None else producer.sequence,
            None if producer is None else producer.payload_digest,
            1 if given.has_append_time else 0, given.appended_at_ms, None, segment.digest,
        ]  # fmt: skip
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=True)
        before = blake2b(text.encode("ascii"), digest_size=16).hexdigest()
        made.append(before)
        base = end
    return made


@pytest.mark.parametrize(
    "given", [ONE, replace(ONE, producer=None), replace(ONE, has_append_time=True)]
)
def test_a_digest_is_of_one_json_array(given):
    assert list(batch_digests("ab" * 16, TOPIC_ID, 7, given)) == by_the_book("ab" * 16, given)


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, ProducerStamp):
        return replace(value, sequence=value.sequence + 1)
    if isinstance(value, tuple):
        return value[::-1]
    return value + 1


@pytest.mark.parametrize("name", [each.name for each in fields(Batch)])
def test_every_field_of_a_header_is_in_it(name):
    good = log("3:aaabcd")
    first = replace(good, batches=()).chained(replace(ONE, base_offset=Offset(0)))
    bad = replace(first, **{name: changed(getattr(first, name))})

    check_chain(NO_CHAIN, TOPIC_ID, 0, [first])
    with pytest.raises(CorruptLogError):
        check_chain(NO_CHAIN, TOPIC_ID, 0, [bad])


@pytest.mark.parametrize("digest", [NO_CHAIN, "f" * 32, "7" + "f" * 31, log("0:a").chain_digest])
def test_counters_hold_a_digest_in_two_halves(digest):
    high, low = halves(digest)

    assert -(2**63) <= min(high, low) <= max(high, low) < 2**63
    assert from_halves(high, low) == digest


@pytest.mark.parametrize("to", range(1, 8))
def test_an_emptied_log_goes_on_with_the_same_chain(to):
    """Whatever retention has taken: the same batch after it has the same digest."""
    whole = log("0:aabccc 1:d")
    kept = whole.apply(operations.advance_log_start(whole, Offset(to)))

    check_log(kept)
    assert kept.chain_digest == whole.chain_digest
    for offset in range(to, 8):
        if kept.chain_at(Offset(offset)) is not None:
            assert kept.chain_at(Offset(offset)) == whole.chain_at(Offset(offset))
    after = batch("e", 7, epoch=1)
    assert kept.chained(after) == whole.chained(after)


def test_a_digest_is_known_where_a_batch_begins_or_ends():
    state = log("0:aabccc", base=10)

    known = [each for each in range(8, 20) if state.chain_at(Offset(each)) is not None]
    assert known == [10, 12, 13, 16]
    assert state.chain_kept_from(Offset(15)) == state.chain_at(Offset(13))
    assert [offset for offset, _ in state.borders_down_from(Offset(15))] == [13, 12, 10]


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
    """Return the batches that have any of some files, by a look at every batch."""
    return [
        batch
        for batch in reversed(state.batches)
        if any(each.uuid in uuids for each in batch.segments)
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
            assert list(state.batches_with(uuids)) == looked_for(state, uuids)

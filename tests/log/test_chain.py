"""The chain over a log: it is what the format says, and no header can be changed unnoticed."""

import json
from dataclasses import fields, replace
from hashlib import blake2b

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import NO_CHAIN, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch, ProducerStamp
from kafka_on_spark.log.state import batch_digests, check_chain, check_log, from_halves, halves
from tests.builders import TOPIC_ID, batch, log, stamp

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
    assert state.chain_at_batch_of(Offset(15)) == state.chain_at(Offset(13))
    assert [offset for offset, _ in state.borders_down_from(Offset(15))] == [13, 12, 10]

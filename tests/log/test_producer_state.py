"""Idempotence (KIP-98): the ladder of answers, then every small history."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    CorruptLogError,
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.log.batch import CLIENT_EPOCH_BITS, CLIENT_PREFIX, Border, WriterFence
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.operations import advance_log_start, append
from kafka_on_spark.log.producer_state import (
    AppendedBefore,
    check_writer,
    find_append,
    find_put,
    known_producer,
    partition_count_of,
)
from kafka_on_spark.log.replicas import with_borders_over
from tests.builders import batch, entry, log, staged, stamp, with_merged

NEW = None
# One producer's appends 3 and 5 (a later run), another's in between.
TWO = {"a": stamp(3), "b": stamp(9, producer="q", epoch=4), "c": stamp(5, epoch=1)}
NEXT = {"a": stamp(3), "b": stamp(4)}
# What is kept of its append 4, whose header went: it stands below the log, or may not stand.
KEPT = {"p": entry(4, epoch=1, base=2)}
ABOVE = {"p": entry(4, epoch=1, base=9)}
UNKNOWN = {"p": entry(epoch=1, unknown_to=4)}
LAST = AppendedBefore(None, KEPT["p"].last)

CLIENT = f"{CLIENT_PREFIX}1"
LAST_SEQUENCE = 2**31 - 1


def client(sequence, epoch=0, **more):
    """Return the stamp of a client of Kafka's protocol."""
    number = (epoch << CLIENT_EPOCH_BITS) + sequence
    return stamp(number, producer=CLIENT, epoch=epoch, **more)


SENT = {"a": client(0), "b": client(1)}
CLIENTS = {CLIENT: entry(4, base=0, count=2)}


# fmt: off
CASES = [  # log     stamps producers  sent                                expected
    # New: the producer was never seen, or its sequence is above the last; it may skip.
    pytest.param("",      {},  {},      stamp(0),                            NEW,                     id="first-append"),
    pytest.param("",      {},  {},      stamp(7),                            NEW,                     id="first-append-may-begin-anywhere"),
    pytest.param("0:abc", TWO, {},      stamp(6, epoch=1),                   NEW,                     id="next"),
    pytest.param("0:abc", TWO, {},      stamp(90, epoch=1),                  NEW,                     id="skipping-is-allowed"),
    pytest.param("0:abc", TWO, {},      stamp(6, epoch=9),                   NEW,                     id="newer-run"),
    pytest.param("0:abc", TWO, {},      stamp(1, producer="r"),              NEW,                     id="other-producer"),
    # Found: a retry, by whatever run, gets its first offsets back.
    pytest.param("0:abc", TWO, {},      stamp(5, epoch=1),                   2,                       id="retry"),
    pytest.param("0:abc", TWO, {},      stamp(3, epoch=1),                   0,                       id="retry-of-an-older-one-by-the-newer-run"),
    pytest.param("0:abc", TWO, {},      stamp(9, producer="q", epoch=5),     1,                       id="retry-by-the-next-run"),
    pytest.param("0:ab",  NEXT, {},     stamp(3),                            0,                       id="retry-of-the-one-before-the-last"),
    # Found with other records: a bug of the caller's.
    pytest.param("0:abc", TWO, {},      stamp(5, epoch=1, digest=8),         DuplicateSequenceError,  id="other-payload"),
    pytest.param("0:abc", TWO, {},      stamp(3, epoch=1, digest=8),         DuplicateSequenceError,  id="other-payload-of-an-older-one"),
    # Not found and not above the last.
    pytest.param("0:abc", TWO, {},      stamp(4, epoch=1),                   OutOfOrderSequenceError, id="between"),
    pytest.param("0:abc", TWO, {},      stamp(0, epoch=1),                   OutOfOrderSequenceError, id="below-all"),
    # Fenced by a newer run, also for what it appended itself.
    pytest.param("0:abc", TWO, {},      stamp(6, epoch=0),                   ProducerFencedError,     id="zombie"),
    pytest.param("0:abc", TWO, {},      stamp(3, epoch=0),                   ProducerFencedError,     id="zombie-retries-its-own"),
    # Its header went: the last one is known with its offsets, of those before it nobody knows the records.
    pytest.param("",      {},  KEPT,    stamp(4, epoch=1),                   LAST,                    id="kept"),
    pytest.param("",      {},  KEPT,    stamp(4, epoch=1, digest=8),         DuplicateSequenceError,  id="kept-with-another-payload"),
    pytest.param("",      {},  KEPT,    stamp(2, epoch=1),                   UnknownProducerIdError,  id="below-the-kept"),
    pytest.param("",      {},  KEPT,    stamp(5, epoch=1),                   NEW,                     id="above-the-kept"),
    pytest.param("",      {},  KEPT,    stamp(5, epoch=0),                   ProducerFencedError,     id="the-kept-epoch-fences"),
    pytest.param("0:c",   TWO, KEPT,    stamp(5, epoch=1),                   3,                       id="header-before-entry"),
    pytest.param("0:c",   TWO, KEPT,    stamp(3, epoch=1),                   UnknownProducerIdError,  id="entry-after-header"),
    pytest.param("0:c",   TWO, KEPT,    stamp(6, epoch=1),                   NEW,                     id="above-header-and-entry"),
    # What is kept of an offset that the log has not reached, or was cut at, is no duplicate.
    pytest.param("",      {},  ABOVE,   stamp(4, epoch=1),                   UnknownProducerIdError,  id="kept-of-above-the-end"),
    pytest.param("",      {},  ABOVE,   stamp(3, epoch=1),                   UnknownProducerIdError,  id="below-what-is-kept-of-above-the-end"),
    pytest.param("",      {},  ABOVE,   stamp(5, epoch=1),                   NEW,                     id="above-what-is-kept-of-above-the-end"),
    pytest.param("",      {},  UNKNOWN, stamp(4, epoch=1),                   UnknownProducerIdError,  id="unknown"),
    pytest.param("0:c",   TWO, UNKNOWN, stamp(3, epoch=1),                   UnknownProducerIdError,  id="unknown-and-no-header"),
    pytest.param("0:c",   TWO, UNKNOWN, stamp(5, epoch=1),                   3,                       id="header-above-the-unknown"),
    pytest.param("0:a",   TWO, UNKNOWN, stamp(3, epoch=1),                   3,                       id="header-among-the-unknown"),
    # A client of Kafka's protocol counts records: what follows is new, and what leaves a gap is refused.
    pytest.param("",      {},  {},      client(7),                           NEW,                     id="a-client-begins-anywhere"),
    pytest.param("0:ab",  SENT, {},     client(2),                           NEW,                     id="a-client-goes-on"),
    pytest.param("0:ab",  SENT, {},     client(3),                           OutOfOrderSequenceError, id="a-clients-gap"),
    pytest.param("0:ab",  SENT, {},     client(0),                           0,                       id="a-clients-repeat"),
    pytest.param("0:ab",  SENT, {},     client(1, digest=8),                 OutOfOrderSequenceError, id="a-client-with-another-payload"),
    pytest.param("0:ab",  SENT, {},     client(0, 1),                        NEW,                     id="a-clients-next-epoch"),
    pytest.param("0:ab",  SENT, {},     client(2, 1),                        OutOfOrderSequenceError, id="a-clients-next-epoch-not-at-0"),
    pytest.param("0:a",   {"a": client(0, 1)}, {}, client(1),                ProducerFencedError,     id="a-clients-former-epoch"),
    pytest.param("0:a",   {"a": client(LAST_SEQUENCE)}, {}, client(0),       NEW,                     id="a-client-wraps"),
    pytest.param("0:a",   {"a": client(LAST_SEQUENCE)}, {}, client(1),       OutOfOrderSequenceError, id="a-client-wraps-with-a-gap"),
    pytest.param("",      {},  CLIENTS, client(6),                           NEW,                     id="above-what-is-kept-of-a-client"),
    pytest.param("",      {},  CLIENTS, client(7),                           OutOfOrderSequenceError, id="a-gap-above-what-is-kept-of-a-client"),
    pytest.param("",      {},  CLIENTS, client(2),                           OutOfOrderSequenceError, id="below-what-is-kept-of-a-client"),
]
# fmt: on


@pytest.mark.parametrize("text, stamps, producers, sent, expected", CASES)
def test_append_of_a_producer(text, stamps, producers, sent, expected):
    state = log(text, stamps=stamps, producers=producers, base=3 if producers else 0)
    again = staged("z", producer=sent)

    if isinstance(expected, type):
        with pytest.raises(expected):
            find_append(state, again)
        return
    if isinstance(expected, int):
        expected = AppendedBefore(state.batches[state.batch_index_at(expected)])

    assert find_append(state, again) == expected


def test_a_clients_sequence_that_has_wrapped_stands_above_those_before_it():
    state = log("0:a", stamps={"a": client(LAST_SEQUENCE)})

    change = append(state, staged("z", producer=client(0)), leader_epoch=0, now_ms=0)

    assert change.adds[0].producer == client(LAST_SEQUENCE + 1)
    again = find_append(state.apply(change), staged("y", producer=client(0)))
    assert again == AppendedBefore(change.adds[0])


@pytest.mark.parametrize("sent", ["2 1", "1 1 1"])
def test_part_of_an_append_in_the_log_is_corruption(sent):
    whole = staged("a", sent)
    part = replace(batch("a", 0, sent), segments=whole.segments[:1], record_count=1)
    state = replace(log(), batches=(part,), log_end_offset=1)

    with pytest.raises(CorruptLogError):
        find_append(state, whole)


def test_append_that_goes_on_under_a_later_leadership_is_found_where_an_earlier_one_put_it():
    """Without a producer the files' ids are all there is, and their names say the new epoch."""
    state = log("0:a 1:b")

    assert find_append(state, staged("a").renamed(2)) == AppendedBefore(state.batches[0])
    assert find_append(state, staged("z").renamed(2)) is None


# fmt: off
SPLITS = [  # sequence  partitions
    pytest.param(2,     3,    id="the first append"),
    pytest.param(7,     5,    id="the last one"),
    pytest.param(4,     None, id="one between that is not in this log"),
    pytest.param(1,     None, id="one before"),
    pytest.param(9,     None, id="one after"),
]
# fmt: on


@pytest.mark.parametrize("sequence, partitions", SPLITS)
def test_by_how_many_partitions_an_append_was_split(sequence, partitions):
    state = log("0:ab", stamps={"a": stamp(2), "b": stamp(7)})
    counts = dict(zip(state.batches, (3, 5), strict=True))
    split = tuple(replace(each, partition_count=count) for each, count in counts.items())

    assert partition_count_of(replace(state, batches=split), "p", sequence) == partitions
    assert partition_count_of(replace(state, batches=split), "another", sequence) is None


@pytest.mark.parametrize("sequence, partitions", [(4, 6), (3, None), (5, None)])
def test_of_appends_without_a_header_only_the_last_ones_split_is_known(sequence, partitions):
    """The topic may have grown between an older one and the last."""
    assert (
        partition_count_of(log("", base=3, producers={"p": entry(4, partitions=6)}), "p", sequence)
        == partitions
    )


# fmt: off
WRITERS = [  # known   asks  fenced
    pytest.param(None,   0,    False, id="the first writer"),
    pytest.param(3,      2,    True,  id="an older writer"),
    pytest.param(3,      3,    False, id="the writer itself"),
    pytest.param(3,      4,    False, id="a newer writer"),
]
# fmt: on


@pytest.mark.parametrize("known, asks, is_fenced", WRITERS)
def test_an_older_writer_is_fenced_and_no_other(known, asks, is_fenced):
    writer = WriterFence(transactional_id="t", epoch=asks)
    producers = {} if known is None else {writer.key: entry(epoch=known)}
    state = log("0:a", producers=producers)

    if is_fenced:
        with pytest.raises(ProducerFencedError, match="taken over by a newer writer"):
            check_writer(state, writer)
    else:
        check_writer(state, writer)
    check_writer(state, WriterFence(transactional_id="another", epoch=0))


def test_what_a_log_knows_of_a_producer_is_the_highest_of_headers_and_entries():
    state = log("0:ab", stamps={"a": stamp(2, epoch=1), "b": stamp(7, epoch=1)})

    assert known_producer(state, "p") == (7, 1)
    assert known_producer(state, "q") == (-1, -1)
    for kept, expected in ((entry(9), (9, 1)), (entry(epoch=4), (7, 4))):
        assert known_producer(replace(state, producers={"p": kept}), "p") == expected


PLAIN = log("0:aabbc")
[FIRST, SECOND, LAST_PUT] = PLAIN.batches
MERGED = with_merged(PLAIN, 0, 4)
READ = MERGED.with_borders(
    MERGED.batches[0],
    tuple(Border(each.end_offset, each.chain_digest) for each in (FIRST, SECOND)),
)
OTHER = replace(FIRST, chain_digests=(ChainDigest("f" * 32),))

# fmt: off
PUTS = [  # log    puts              stands  must be read first
    pytest.param(PLAIN,  [FIRST],          FIRST,  False, id="plain"),
    pytest.param(PLAIN,  [OTHER],          None,   False, id="another at the same offset"),
    pytest.param(PLAIN,  [OTHER, FIRST],   FIRST,  False, id="one of two"),
    pytest.param(PLAIN,  [],               None,   False, id="nothing was put"),
    pytest.param(READ,   [FIRST],          FIRST,  False, id="merged away"),
    pytest.param(READ,   [OTHER],          None,   False, id="another was merged there"),
    pytest.param(MERGED, [SECOND],         SECOND, False, id="the last that was merged"),
    pytest.param(MERGED, [LAST_PUT],           LAST_PUT,   False, id="behind what was merged"),
    pytest.param(MERGED, [FIRST],          None,   True,  id="merged and not read"),
    pytest.param(log("0:aa"), [LAST_PUT],      None,   False, id="above the end"),
]
# fmt: on


def unread_over(state, puts):
    """Return the merged segments whose borders are read to tell whether commits stand."""
    asked = []
    with_borders_over(state, puts, lambda merged: asked.append(merged) or ())
    return asked


@pytest.mark.parametrize("state, puts, stands, must_read", PUTS)
def test_a_put_stands_where_the_log_has_its_digest(state, puts, stands, must_read):
    assert bool(unread_over(state, puts)) == must_read
    if not must_read:
        assert find_put(state, puts) == stands


def test_where_compaction_dropped_the_borders_nobody_can_tell():
    compacted = MERGED.with_borders(MERGED.batches[0], ())

    assert unread_over(compacted, [FIRST]) == []
    with pytest.raises(CommitOutcomeUnknownError):
        find_put(compacted, [FIRST])
    assert find_put(compacted, [LAST_PUT]) == LAST_PUT
    assert compacted.log_end_offset == Offset(5)


def test_where_it_dropped_some_of_the_borders_nobody_can_tell_below():
    """A file that was compacted is merged with the next, which has borders."""
    merged = with_merged(PLAIN, 0, 5)
    borders = tuple(Border(each.end_offset, each.chain_digest) for each in (SECOND, LAST_PUT))
    progress = CompactionProgress(compacted_below=Offset(4), finished_below=Offset(4))
    left = replace(merged.with_borders(merged.batches[0], borders), compaction=progress)

    with pytest.raises(CommitOutcomeUnknownError, match="compacted"):
        find_put(left, [FIRST])
    assert find_put(left, [SECOND]) == SECOND
    assert find_put(left, [LAST_PUT]) == LAST_PUT
    assert find_put(left, [replace(LAST_PUT, chain_digests=OTHER.chain_digests)]) is None


def test_below_what_retention_left_nobody_can_tell():
    """Put again, it would stand twice, and under a path that the table has removed."""
    left = PLAIN.apply(advance_log_start(PLAIN, Offset(4)))

    assert find_put(left, [SECOND]) == SECOND  # the digest before the first batch tells
    assert find_put(left, [LAST_PUT]) == LAST_PUT
    with pytest.raises(CommitOutcomeUnknownError, match="deleted"):
        find_put(left, [FIRST])

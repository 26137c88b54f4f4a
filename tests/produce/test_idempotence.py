"""Runs of producers and writers, and where an earlier try of an append may stand."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    InvalidRequestError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RootAccessDeniedError,
    UnknownProducerIdError,
)
from kafka_on_spark.controller.expiry import expire
from kafka_on_spark.metadata.image import MetadataImage, id_of_one_run, snapshot_records
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    ProducerRecord,
    RemoveProducerRecord,
    Stamp,
)
from kafka_on_spark.produce.idempotence import (
    CHOSEN_EPOCH_MAX,
    GIVEN_EPOCH_MAX,
    EarlierTries,
    NextAppend,
    OwnRun,
    ProducerRuns,
    begin_append,
    check_producer,
    check_transactional_id,
    check_tries,
)
from kafka_on_spark.produce.staging import AppendPlan, ProducerRun, StageOrder
from tests.builders import KEY, TOPIC, TOPIC_ID, entry, image_of, log, partition, staged, stamp
from tests.controller.controlled import World
from tests.fakes import MemoryMetadataLog
from tests.nodes import node_of


@pytest.fixture
def world():
    return World()


def begin(runs, producer_id, epoch, sequence):
    check_producer(producer_id, epoch, sequence)
    append = NextAppend(producer_id=producer_id, sequence=sequence, producer_epoch=epoch)
    return runs.begin(append)


def runs(world):
    return ProducerRuns(node_of(world.metadata(), world.clock))


def test_who_may_not_commit_is_told_so_and_registers_nothing(world, monkeypatch):
    def refuse(self):
        raise RootAccessDeniedError("read-only")

    mine = runs(world)
    begin(mine, "q", None, 1)
    monkeypatch.setattr(MemoryMetadataLog, "check_writable", refuse)

    with pytest.raises(RootAccessDeniedError):
        begin(mine, "p", None, 1)
    with pytest.raises(RootAccessDeniedError):
        mine.take_over("t")
    assert begin(mine, "q", None, 2).producer_epoch == 0
    assert world.image.producers == {"q": 0}


def test_threads_begin_one_run_of_an_id_and_keep_its_lock_as_long_as_they_use_it(
    world, monkeypatch
):
    mine, begun, kept = runs(world), ProducerRuns._committed_run, []

    def collected(self, append, run):
        gc.collect()
        kept.append(append.producer_id in self._begins)
        return begun(self, append, run)

    monkeypatch.setattr(ProducerRuns, "_committed_run", collected)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda each: begin(mine, f"p{each % 3}", None, each), range(12)))

    assert {each.producer_epoch for each in found} == {0}
    assert kept == [True] * 12
    assert len(mine._begins) == 0


def test_a_run_under_whose_id_nobody_appends_any_more_is_forgotten(world):
    """A process that makes a producer for each request has ids without number."""
    mine = runs(world)
    for producer_id in (OF_ONE_RUN, "p"):
        begin(mine, producer_id, None, 1)

    mine.forget(OF_ONE_RUN)
    mine.forget("never begun")

    assert list(mine.own) == ["p"]


def test_the_newest_writer_under_a_transactional_id_fences_the_others(world):
    first, second = runs(world), runs(world)
    assert first.take_over("t").epoch == 0
    assert first.take_over("t").epoch == 0
    assert second.take_over("t").epoch == 1
    first._metadata.catch_up()

    with pytest.raises(ProducerFencedError):
        first.take_over("t")
    assert runs(world).take_over("u").epoch == 0
    assert runs(world).take_over(None) is None


@pytest.mark.parametrize("given", [("p", None, None), (None, 1, None), (None, None, 1)])
def test_a_producer_and_its_sequence_are_given_together(given):
    with pytest.raises(InvalidRequestError):
        check_producer(*given)


@pytest.mark.parametrize("producer_id", ["", 7])
def test_a_producer_has_a_text_for_a_name(producer_id):
    with pytest.raises(InvalidRequestError, match="give a text of your own"):
        check_producer(producer_id, None, 1)


def test_epochs_count_from_0_on(world):
    assert begin(runs(world), "p", 0, 1).producer_epoch == 0
    with pytest.raises(InvalidRequestError, match="from 0 to 2147483647, or none"):
        check_producer("p", -1, 1)


@pytest.mark.parametrize("transactional_id", ["", 7])
def test_a_writer_has_a_text_for_a_name(transactional_id):
    with pytest.raises(InvalidRequestError, match="give a text that only this writer"):
        check_transactional_id(transactional_id)


WEEK_MS = 7 * 24 * 3600 * 1000


def expire_all(world):
    world.clock.advance(WEEK_MS + 1)
    metadata = world.metadata()
    metadata.submit(lambda image: expire(image, world.clock.now_ms()), timeout_ms=1000)


def test_a_renewal_that_was_overtaken_does_not_take_the_time_back(world, monkeypatch):
    mine = ProducerRuns(node_of(world.metadata(), world.clock, timeout_ms=WEEK_MS))
    begin(mine, "p", None, 1)
    world.clock.advance(WEEK_MS // 2)
    append = world.log.append

    def overtaken(*arguments, **named):
        monkeypatch.undo()
        world.clock.advance(WEEK_MS // 2)
        begin(runs(world), "p", None, 2)
        return append(*arguments, **named)

    monkeypatch.setattr(world.log, "append", overtaken)

    begin(mine, "p", None, 3)

    assert world.image.producer_times["p"] == world.clock.now_ms()


def expired(world, producer_id="p", sequence=7):
    """Return the runs of a process that has appended under an id which has expired since."""
    mine = runs(world)
    begin(runs(world), "q", 5, 1)
    begin(mine, producer_id, None, sequence)
    expire_all(world)
    mine._metadata.catch_up()
    return mine


OF_ONE_RUN = id_of_one_run("0123456789abcdef" * 2)


def test_a_new_id_may_have_no_epoch_that_others_have_expired_with(world):
    """What logs know of an id is forgotten by its epoch, too, by processes that know it not yet."""
    expired(world)

    with pytest.raises(
        UnknownProducerIdError, match=r"epoch 5 is not .* give producer_epoch 6, or"
    ):
        begin(runs(world), "new", 5, 0)
    assert begin(runs(world), "new", 6, 0).producer_epoch == 6


# fmt: off
NOT_GIVEN = [
    (-1,                   GIVEN_EPOCH_MAX),
    (CHOSEN_EPOCH_MAX + 1, CHOSEN_EPOCH_MAX),
    (2**31 - 1,            CHOSEN_EPOCH_MAX),
    (2**31,                GIVEN_EPOCH_MAX),
    (2**70,                GIVEN_EPOCH_MAX),
]
# fmt: on


@pytest.mark.parametrize("epoch, highest", NOT_GIVEN)
def test_an_epoch_that_leaves_no_room_above_it_is_refused(world, epoch, highest):
    """It would be a floor for the epochs of all ids once it has expired."""
    with pytest.raises(InvalidRequestError, match=f"from 0 to {highest}, or none"):
        begin(runs(world), "p", epoch, 0)
    assert world.image.producers == {}


TWO = image_of(partition("1 2"), partition("1 2"))
OTHER = KEY._replace(partition=1)
BOTH = [KEY, OTHER]


def plan(*, sequence=1, epoch=0, is_next=True, is_only=False, is_by_partition=False):
    order = StageOrder(
        targets=(), has_producer=True, now_us=0, record_bytes_max=1, segment_bytes_max=1
    )
    run = ProducerRun(
        producer_id="p", producer_epoch=epoch, sequence=sequence, is_next=is_next, is_only=is_only
    )
    return AppendPlan(
        topic_id=TOPIC_ID,
        topic=TOPIC,
        order=order,
        acks="all",
        producer=run,
        timeout_ms=1,
        is_by_partition=is_by_partition,
    )


# fmt: off
LOOKS = [  # an append, another of which the topic was looked at before (7 stood there), and whether it is looked at now
    pytest.param(plan(is_only=True),                None,          False, id="of an id that is new, or that this run alone has had"),
    pytest.param(plan(is_only=True, is_next=False), None,          True,  id="a retry in such a run"),
    pytest.param(plan(),                            None,          True,  id="the first of a run after others"),
    pytest.param(plan(sequence=8),                  plan(),        False, id="the next of such a run"),
    pytest.param(plan(sequence=7),                  plan(),        True,  id="one that an earlier run had begun"),
    pytest.param(plan(is_next=False),               plan(),        True,  id="a retry in such a run after others"),
    pytest.param(plan(epoch=2),                     plan(epoch=1), True,  id="the first of another run"),
    pytest.param(plan(is_by_partition=True),        None,          False, id="a Producer's"),
]
# fmt: on


@pytest.mark.parametrize("append, before, is_checked", LOOKS)
def test_a_topic_is_checked_where_an_earlier_try_may_stand(append, before, is_checked):
    tries = EarlierTries()
    if before is not None:
        tried = tries.partitions(TWO, [before])
        assert tried == BOTH
        batches = {KEY: staged("z", producer=stamp(1))}
        logs = {KEY: EMPTY, OTHER: log("0:a", stamps={"a": stamp(7)})}
        tries.note_checked([before], check_tries(TWO, logs, batches, tried))

    assert tries.partitions(TWO, [append]) == (BOTH if is_checked else [])


WITH_5 = log("0:a", stamps={"a": stamp(5, digest=7)})
WITH_8 = log("0:a", stamps={"a": stamp(8, digest=7)})
EMPTY = log("")
WAS_5 = log("", producers={"p": entry(5, base=0)}, base=3)
WAS_8 = log("", producers={"p": entry(8, base=0)}, base=3)
IS_NEWER = log("", producers={"p": entry(epoch=1)})


# fmt: off
TRIES = [  # the log of the partition that gets records, of the other one, the digest, and what is said
    pytest.param(EMPTY,    EMPTY,    7, None,                    id="it is new"),
    pytest.param(EMPTY,    None,     7, None,                    id="it is new, and the other partition was never made"),
    pytest.param(WITH_5,   EMPTY,    7, None,                    id="the same stands where it goes"),
    pytest.param(EMPTY,    WITH_5,   7, None,                    id="the same stands in the other"),
    pytest.param(WITH_5,   EMPTY,    9, DuplicateSequenceError,  id="other records stand where it goes"),
    pytest.param(EMPTY,    WITH_5,   9, DuplicateSequenceError,  id="other records stand in the other"),
    pytest.param(EMPTY,    WAS_5,    9, DuplicateSequenceError,  id="and were deleted since"),
    pytest.param(WAS_8,    EMPTY,    7, UnknownProducerIdError,  id="only a number is left where it goes"),
    pytest.param(EMPTY,    WAS_8,    7, UnknownProducerIdError,  id="only a number is left in the other"),
    pytest.param(WITH_8,   EMPTY,    7, OutOfOrderSequenceError, id="a later one stands where it goes"),
    pytest.param(EMPTY,    WITH_8,   7, None,                    id="a later one stands in the other, and it does not"),
    pytest.param(EMPTY,    IS_NEWER, 7, ProducerFencedError,     id="a newer run has begun in the other"),
]
# fmt: on


@pytest.mark.parametrize("own, other, digest, error", TRIES)
def test_an_append_is_refused_as_a_whole_for_what_stands_in_any_partition(
    own, other, digest, error
):
    batches = {KEY: staged("z", producer=stamp(5, digest=digest))}
    logs = {KEY: own, OTHER: other}

    if error is None:
        check_tries(TWO, logs, batches, BOTH)
        return
    with pytest.raises(error):
        check_tries(TWO, logs, batches, BOTH)


def replayed(image, *records):
    return image.replay(
        MetadataBatch(base_offset=image.offset, stamp=Stamp(time_ms=1), records=records)
    )


def run(epoch, first_sequence=None):
    return ProducerRecord(producer_id="p", producer_epoch=epoch, first_sequence=first_sequence)


GONE = RemoveProducerRecord(producer_id="p", producer_epoch=3)
NEW = MetadataImage()
LIVES = replayed(NEW, run(3))
EXPIRED = replayed(LIVES, GONE)
CAME_BACK = replayed(EXPIRED, run(4, first_sequence=8))


def own(epoch, last, *, is_only=True):
    return OwnRun(producer_epoch=epoch, last=last, is_only=is_only)


def begun(image, sequence, mine=None, **named):
    """Return the epoch, and what a record says of it: "" for none, and the first sequence."""
    append = NextAppend(producer_id="p", sequence=sequence, **named)
    result = begin_append(image, append, mine)
    if not result.records:
        return result.response.producer_epoch, ""
    [record] = result.records
    assert record.producer_epoch == result.response.producer_epoch
    return record.producer_epoch, record.first_sequence


# fmt: off
BEGUN = [  # image   sequence, own run        what else the caller says   epoch, first sequence
    pytest.param(NEW,       7, None,                  {},                    (0, None), id="a new id"),
    pytest.param(NEW,       7, None,                  {"producer_epoch": 5}, (5, None), id="a new id with an epoch"),
    pytest.param(LIVES,     0, None,                  {},                    (4, None), id="a run after another"),
    pytest.param(LIVES,     0, own(3, 7),             {},                    (3, ""),   id="a run that goes on"),
    pytest.param(LIVES,     0, None,                  {"producer_epoch": 3}, (3, ""),   id="a run with its epoch goes on"),
    pytest.param(EXPIRED,   8, own(3, 7),             {},                    (4, 8),    id="above all that was tried"),
    pytest.param(EXPIRED,   7, own(3, 7),             {"is_untried": True},  (4, 7),    id="never tried"),
    pytest.param(EXPIRED,   7, None,                  {"expired_below": 4},  (4, 7),    id="vouched for"),
    pytest.param(EXPIRED,   7, None,                  {"producer_epoch": 6}, (6, 7),    id="vouched for by an epoch"),
    pytest.param(CAME_BACK, 8, None,                  {},                    (5, None), id="another process at the first sequence"),
    pytest.param(CAME_BACK, 9, None,                  {},                    (5, None), id="another process above it"),
    pytest.param(CAME_BACK, 8, own(4, 9),             {},                    (4, ""),   id="a retry of what brought it back"),
    pytest.param(CAME_BACK, 7, own(4, 8),             {"is_untried": True},  (4, ""),   id="never tried, below the first sequence"),
    pytest.param(CAME_BACK, 7, None,                  {"expired_below": 5},  (5, 7),    id="vouched for, below the first sequence"),
    pytest.param(CAME_BACK, 7, own(4, 8),             {"expired_below": 5},  (5, 7),    id="vouched for by the run that brought it back"),
    pytest.param(CAME_BACK, 7, None,                  {"producer_epoch": 9}, (9, 7),    id="vouched for by an epoch, below the first sequence"),
]
REFUSED = [
    pytest.param(EXPIRED,   8, None,                      {},                    id="another process, with any sequence"),
    pytest.param(EXPIRED,   7, own(3, 7),                 {},                    id="what this run has tried"),
    pytest.param(EXPIRED,   8, own(2, 7),                 {},                    id="a newer run may have tried it"),
    pytest.param(EXPIRED,   8, own(3, 7, is_only=False),  {},                    id="an older run may have tried it"),
    pytest.param(EXPIRED,   7, None,                      {"expired_below": 3},  id="vouched for before it expired"),
    pytest.param(EXPIRED,   7, None,                      {"producer_epoch": 3}, id="an epoch that has expired"),
    pytest.param(CAME_BACK, 7, None,                      {},                    id="another process that comes late"),
    pytest.param(CAME_BACK, 0, None,                      {},                    id="from the beginning"),
    pytest.param(CAME_BACK, 7, own(4, 8),                 {},                    id="below what brought it back"),
    pytest.param(CAME_BACK, 7, None,                      {"expired_below": 4},  id="vouched for before it came back"),
    pytest.param(CAME_BACK, 7, None,                      {"producer_epoch": 4}, id="vouched for by the epoch that came back"),
]
# fmt: on


@pytest.mark.parametrize("image, sequence, mine, said, expected", BEGUN)
def test_an_append_gets_its_epoch_and_an_id_that_comes_back_its_first_sequence(
    image, sequence, mine, said, expected
):
    assert begun(image, sequence, mine, **said) == expected


@pytest.mark.parametrize("image, sequence, mine, said", REFUSED)
def test_what_may_stand_in_logs_that_have_forgotten_it_is_refused(image, sequence, mine, said):
    with pytest.raises(UnknownProducerIdError, match=r"give producer_epoch [45] and append"):
        begun(image, sequence, mine, **said)


@pytest.mark.parametrize("image", [LIVES, CAME_BACK])
@pytest.mark.parametrize("sequence", [7, 8])
def test_a_run_from_before_another_one_is_fenced(image, sequence):
    with pytest.raises(ProducerFencedError):
        begun(image, sequence, own(2, 7))
    with pytest.raises(ProducerFencedError):
        begun(image, sequence, producer_epoch=2)


def test_a_later_run_and_a_renewal_keep_the_first_sequence():
    renewed = ProducerRecord(producer_id="p", producer_epoch=5, renewed_at_ms=2)
    image = replayed(CAME_BACK, run(5), renewed)

    assert image.first_sequences == {"p": 8}
    rebuilt = replayed(NEW, *snapshot_records(image))
    assert rebuilt.first_sequences == {"p": 8}


def test_an_id_that_expires_again_has_no_first_sequence():
    image = replayed(CAME_BACK, RemoveProducerRecord(producer_id="p", producer_epoch=4))

    assert image.first_sequences == {}
    assert begun(image, 12, own(4, 11)) == (5, 12)


def test_a_run_is_the_only_one_if_the_id_was_new_or_came_back():
    def is_only(image, sequence, mine=None, **named):
        append = NextAppend(producer_id="p", sequence=sequence, **named)
        return begin_append(image, append, mine).response.is_only

    assert is_only(NEW, 0)
    assert is_only(EXPIRED, 8, own(3, 7))
    assert is_only(CAME_BACK, 9, own(4, 8))
    assert not is_only(LIVES, 0)
    assert not is_only(CAME_BACK, 7, own(4, 8), expired_below=5)

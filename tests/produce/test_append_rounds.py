"""When an append is refused, acknowledged, or of unknown outcome, and what its batches meet on the way."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
    QuorumUnavailableError,
    RequestTimedOutError,
    RootAccessDeniedError,
    UnexpectedOffsetError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import NO_CHAIN
from kafka_on_spark.controller.inspections import LostReplicaInspector
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.log.fetch import fetch_task
from kafka_on_spark.log.replicas import Appended, begin_leadership
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.metadata.commit_lock import NO_LOCK
from kafka_on_spark.produce import leader_log
from kafka_on_spark.produce.append_rounds import AppendRounds, AppendThreads, check_ends
from kafka_on_spark.produce.leader_log import (
    PartitionBatch,
    fence_tries,
    is_acknowledged,
    is_committed,
    place_files,
    read_leader,
)
from kafka_on_spark.store.deadlines import within
from tests.builders import KEY, address, disk, image_of, log, partition, staged, stamp
from tests.fakes import (
    FakeClock,
    Fault,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
)
from tests.nodes import node_of

TWO = {"min.insync.replicas": "2"}
UNCHANGED = LogChange(operation="test", log_start_offset=0, log_end_offset=0, leader_epoch=5)
IN_SYNC = image_of(partition("1 2", version=1), configs=TWO, producers={"p": 0})
ALONE = image_of(partition("1 2", isr="1", version=2), configs=TWO)


class Images:
    """What an appender needs of a MetadataService: images that follow on each other."""

    is_far = False

    def __init__(self, *images):
        self._images = list(images)

    @property
    def image(self):
        return self._images[0]

    def catch_up(self):
        if len(self._images) > 1:
            del self._images[0]
        return self.image

    lock = NO_LOCK

    def submit(self, decide, *, queued, timeout_ms):
        return decide(self.image).response


class Unwatched:
    """Its appends decide nothing for themselves."""

    def __init__(self, node):
        self.node = node

    def append(self, batches, *, acks, timeout_ms, other_ends=None):
        batches = [replace(each, puts=[]) for each in batches]
        rounds = AppendRounds(
            self.node, batches, acks=acks, timeout_ms=timeout_ms, may_decide=False
        )
        rounds.check(other_ends or {}, ())
        return rounds.run()


def all_answer(orders):
    return [ProbeResult(each.broker_id, NO_ERROR) for each in orders]


@pytest.fixture
def roots():
    return MemoryRoots({address(each).root: disk(each) for each in (1, 2, 3)})


@pytest.fixture
def appender(roots):
    replicas = MemoryReplicaStore(roots)
    for each in (1, 2):
        replicas.create(address(each))
    begin_leadership(replicas.open(address(1)), partition("1 2"))
    return lambda images: Unwatched(
        node_of(
            images,
            FakeClock(),
            given={fetch_task: lambda orders: [], probe_task: all_answer},
            parts={LostReplicaInspector: SimpleNamespace(inspect=lambda image, keys: [])},
            replicas=replicas,
            segments=MemorySegmentStore(roots),
        )
    )


def test_a_refusal_after_an_unknown_outcome_says_that_the_append_may_be_committed(roots, appender):
    """A newer run has begun meanwhile: it fences this one, and what stands in the log stays."""
    roots[address(1).root].faults.append(Fault.LOST_ANSWER)
    newer = replace(IN_SYNC, producers={"p": 1})
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = PartitionBatch(key=KEY, staged=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(IN_SYNC, newer)).append([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is ProducerFencedError
    assert "an earlier try of this append may be committed" in str(outcome.error)
    assert outcome.error.context["may_be_committed"]


@pytest.mark.parametrize("epoch, is_refused", [(5, True), (4, False)])
def test_what_a_leader_has_lost_is_put_there_again_in_another_epoch_only(
    appender, epoch, is_refused
):
    """Its files have other names then: a follower may have had them under these (I26)."""
    node = appender(Images(IN_SYNC)).node
    [lost] = log(f"{epoch}:a").batches
    batch = PartitionBatch(
        key=KEY,
        staged=staged("a", epoch=5),
        holders=(address(1), address(2)),
        registration=partition("1 2"),
        is_appended=True,
        puts=[lost],
    )

    with pytest.raises(CommitOutcomeUnknownError) if is_refused else nullcontext():
        leader_log.place(node, IN_SYNC, batch)


def test_a_refusal_of_the_first_try_says_nothing_of_earlier_ones(appender):
    newer = replace(IN_SYNC, producers={"p": 1})
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = PartitionBatch(key=KEY, staged=batch, holders=(address(1), address(2)))

    [outcome] = appender(Images(newer)).append([part], acks="all", timeout_ms=1000)

    assert type(outcome.error) is ProducerFencedError
    assert "may_be_committed" not in outcome.error.context


class AwayImages(Images):
    """The same with a metadata root that is away for some reads and commits."""

    def __init__(self, *images, away, error=KafkaStorageError):
        super().__init__(*images)
        self._away = away
        self._error = error

    def _reach(self):
        self._away -= 1
        if self._away >= 0:
            raise self._error("the metadata root does not answer")

    def catch_up(self):
        self._reach()
        return super().catch_up()

    def submit(self, decide, *, queued, timeout_ms):
        self._reach()
        return super().submit(decide, queued=queued, timeout_ms=timeout_ms)


# Of the only metadata root, and of a majority of several.
ROOT_ERRORS = pytest.mark.parametrize("error", [KafkaStorageError, QuorumUnavailableError])


@ROOT_ERRORS
@pytest.mark.parametrize("acks", ["1", "all"])
def test_an_append_whose_metadata_root_stays_away_is_unknown_and_never_called_not_written(
    roots, appender, acks, error
):
    images = AwayImages(IN_SYNC, away=999, error=error)
    part = PartitionBatch(key=KEY, staged=staged("a", epoch=5), holders=(address(1), address(2)))

    [outcome] = appender(images).append([part], acks=acks, timeout_ms=1000)

    assert type(outcome.error) is RequestTimedOutError
    assert "the metadata root does not answer" in str(outcome.error)
    assert "whether it will be committed is unknown" in str(outcome.error)
    [batch] = MemoryReplicaStore(roots).open(address(1)).load().batches
    assert batch.base_offset == 0


def test_an_append_that_was_never_tried_is_called_not_written(roots, appender):
    part = PartitionBatch(key=KEY, staged=staged("a"), holders=(address(1),))

    with pytest.raises(NotEnoughReplicasError):
        appender(Images(ALONE)).append([part], acks="all", timeout_ms=1000)


UNLED = image_of(partition("1 2", isr="1", leader=None, version=2))


def test_a_conditional_append_waits_for_a_leader_to_say_where_the_log_ends(appender):
    part = PartitionBatch(
        key=KEY, staged=staged("a", epoch=5), holders=(address(1),), expected_offset=0
    )

    [outcome] = appender(Images(UNLED, UNLED, IN_SYNC)).append([part], acks="1", timeout_ms=9000)

    assert (outcome.error, outcome.base_offset) == (None, 0)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_a_conditional_append_without_a_leader_appends_nothing_elsewhere(roots, appender, acks):
    """That the other partition ends at 0 is not known: it may have records."""
    other = KEY._replace(partition=1)
    unled = image_of(partition("1 2"), partition("1 2", isr="1", leader=None))
    part = PartitionBatch(key=KEY, staged=staged("a", epoch=5), holders=(address(1),))

    with pytest.raises(NotLeaderOrFollowerError, match="orders-1 has no leader"):
        appender(Images(unled)).append([part], acks=acks, timeout_ms=1000, other_ends={other: 0})

    assert MemoryReplicaStore(roots).open(address(1)).load().batches == ()


def test_a_conditional_append_that_may_not_read_the_metadata_ends_its_wait(appender):
    images = AwayImages(UNLED, away=999, error=RootAccessDeniedError)
    part = PartitionBatch(
        key=KEY, staged=staged("a", epoch=5), holders=(address(1),), expected_offset=0
    )

    with pytest.raises(RootAccessDeniedError):
        appender(images).append([part], acks="1", timeout_ms=9000)


class ElectedMeanwhile(Images):
    """A new leader is seen once the old one's table has the append; somebody appended to it."""

    def submit(self, decide, *, queued, timeout_ms):
        self.catch_up()
        return super().submit(decide, queued=queued, timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "acks, expected, told, log_end",
    [
        ("1", None, None, 2),
        ("1", 0, UnexpectedOffsetError, 1),
        ("all", 0, UnexpectedOffsetError, 1),
    ],
    ids=["acks=1", "acks=1, conditional", "acks=all, conditional"],
)
def test_what_a_former_leader_has_is_no_answer_and_meets_no_condition(
    roots, appender, acks, expected, told, log_end
):
    """Nobody fences the table of a leader that was drained or lost, until it fetches again."""
    elected = partition("2 1", isr="2", leader=2, epoch=6, version=2)
    other = PartitionBatch(key=KEY, staged=staged("b", epoch=6), holders=(address(2),))
    part = PartitionBatch(
        key=KEY,
        staged=staged("a", epoch=5),
        holders=(address(1), address(2)),
        expected_offset=expected,
    )
    for batch in (part, other):
        for holder in batch.holders:
            for each in batch.staged.segments:
                MemorySegmentStore(roots).put(holder, each)
    appender(Images(image_of(elected))).append([other], acks="1", timeout_ms=1000)

    images = ElectedMeanwhile(image_of(partition("1 2", version=1)), image_of(elected))
    [outcome] = appender(images).append([part], acks=acks, timeout_ms=1000)

    log = MemoryReplicaStore(roots).open(address(2)).load()
    assert (outcome.error and type(outcome.error), log.log_end_offset) == (told, log_end)


# fmt: off
TAKEN_OVER = [  # whether the next leader has the records, what is told, where its log ends
    pytest.param(False, ProducerFencedError,  0, id="it lacks them"),
    pytest.param(True,  RequestTimedOutError, 1, id="it has them"),
]
# fmt: on


@pytest.mark.parametrize("has_fetched, told, log_end", TAKEN_OVER)
def test_a_run_that_was_taken_over_from_appends_nothing_a_second_time(
    roots, appender, has_fetched, told, log_end
):
    """A leader elected since has never seen the newer run; on an expanded topic, the records
    that it lacks may stand in another partition by now (found by simulation)."""
    if not has_fetched:
        roots[address(2).root].faults.append(Fault.OFFLINE)
    part = PartitionBatch(
        key=KEY,
        staged=staged("a", epoch=5, producer=stamp(0)),
        holders=(address(1), address(2)),
    )
    for holder in part.holders:
        for each in part.staged.segments:
            MemorySegmentStore(roots).put(holder, each)
    elected = partition("2 1", isr="2", leader=2, epoch=6, version=2)
    images = Images(
        image_of(partition("1 2", version=1), producers={"p": 0}),
        image_of(elected, producers={"p": 1}),
    )

    [outcome] = appender(images).append([part], acks="all", timeout_ms=200)

    log = MemoryReplicaStore(roots).open(address(2)).load()
    assert (type(outcome.error), log.log_end_offset) == (told, log_end)


def test_no_older_try_comes_late_once_each_replica_that_may_lead_has_adopted_this_leadership(
    roots, appender
):
    run, node = stamp(0, producer="p", epoch=0), appender(Images(IN_SYNC)).node
    follower = node.replicas.open(address(2))

    fence_tries(node, IN_SYNC, KEY, run)
    assert follower.load().leader_epoch == 5

    roots[address(2).root].is_offline = True
    with pytest.raises(NotEnoughReplicasError, match="may have a first try"):
        fence_tries(node, IN_SYNC, KEY, run)


@pytest.mark.parametrize("is_left_out", [False, True])
def test_an_append_looks_whether_its_id_has_expired_once_it_has_read_the_log(
    roots, appender, monkeypatch, is_left_out
):
    """I11: a log that has lost headers may have forgotten an append whose id expired meanwhile."""
    alone = partition("1", version=1, start=7, hw=7, hw_chain=NO_CHAIN)
    image = image_of(alone, ids="1", producers={"p": 0})
    expired = replace(image_of(alone, ids="1"), expired_epoch=0)
    log = MemoryReplicaStore(roots).open(address(1))
    log.commit(log.load(), replace(UNCHANGED, log_start_offset=7, log_end_offset=7))
    part = PartitionBatch(
        key=KEY, staged=staged("a", epoch=5, producer=stamp(0)), holders=(address(1),)
    )
    for each in part.staged.segments:
        MemorySegmentStore(roots).put(address(1), each)
    if is_left_out:
        monkeypatch.setattr(leader_log, "check_remembered", lambda *_: None)

    [outcome] = appender(Images(image, expired)).append([part], acks="1", timeout_ms=200)

    assert isinstance(outcome.error, UnknownProducerIdError) is not is_left_out
    assert log.load().log_end_offset == (8 if is_left_out else 7)


def test_an_append_that_stands_already_is_a_duplicate_and_a_retry_of_its_own_is_none(
    roots, appender
):
    """Of a lost answer it is the same append: it was not there before."""
    batch = staged("a", epoch=5, producer=stamp(0, producer="p", epoch=0))
    part = PartitionBatch(key=KEY, staged=batch, holders=(address(1), address(2)))
    for segment in batch.segments:
        MemorySegmentStore(roots).put(address(1), segment)
        MemorySegmentStore(roots).put(address(2), segment)

    [first] = appender(Images(IN_SYNC)).append([part], acks="1", timeout_ms=1000)
    [second] = appender(Images(IN_SYNC)).append([part], acks="1", timeout_ms=1000)

    assert (first.error, second.error) == (None, None)
    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert first.base_offset == second.base_offset == 0


@ROOT_ERRORS
@pytest.mark.parametrize("away", [1, 2, 3])
def test_an_append_waits_for_a_metadata_root_that_comes_back(appender, away, error):
    images = AwayImages(IN_SYNC, away=away, error=error)
    part = PartitionBatch(key=KEY, staged=staged("a", epoch=5), holders=(address(1),))

    [outcome] = appender(images).append([part], acks="1", timeout_ms=9000)

    assert (outcome.error, outcome.base_offset) == (None, 0)


LOG = log("5:abc", fence=5)  # the append is `b`
SHORT, OTHER = log("5:a", fence=5), log("5:axcd", fence=5)

# fmt: off
COMMITTED = [  # its leader's log as it was seen, the high watermark, and whose it is   committed
    pytest.param(LOG,                        2, LOG,   True,  id="the-high-watermark-has-reached-it"),
    pytest.param(LOG,                        3, LOG,   True,  id="and-gone-on"),
    pytest.param(LOG,                        1, LOG,   False, id="the-high-watermark-is-below-it"),
    pytest.param(log("4:ab", fence=4),       2, LOG,   False, id="seen-in-the-log-of-a-deposed-leader"),
    pytest.param(LOG,                        2, OTHER, False, id="another-was-committed-in-its-place-in-the-same-epoch"),
    pytest.param(LOG,                        3, OTHER, False, id="and-more-after-it"),
    pytest.param(OTHER,                      2, OTHER, False, id="its-leader-was-set-back-and-has-another-there"),
    pytest.param(SHORT,                      2, LOG,   False, id="its-leader-was-set-back"),
    pytest.param(LOG,                        4, OTHER, False, id="the-high-watermark-is-above-what-was-seen"),
]
# fmt: on


@pytest.mark.parametrize("found, hw, committed, expected", COMMITTED)
def test_an_append_is_committed_only_where_the_chain_is_the_registers(
    found, hw, committed, expected
):
    registered = partition("1 2", hw=hw, hw_epoch=5, hw_chain=committed.chain_at(hw))

    assert is_committed(registered, found, LOG.batches[1]) is expected


def test_an_append_that_was_committed_and_has_left_the_log_stands():
    assert is_committed(partition("1 2", hw=2), log("5:d", base=2, fence=5), None)


class Leader:
    """A leader's log that is read again."""

    def __init__(self, now):
        self.load = lambda: self.now()
        self.now = now


def away():
    raise KafkaStorageError("the root is away")


@pytest.mark.parametrize(
    "now, expected",
    [
        pytest.param(lambda: log("5:abcd", fence=5), True, id="it-stands-there"),
        pytest.param(lambda: log("5:axcd", fence=5), False, id="another-stands-there"),
        pytest.param(lambda: log("5:abc", fence=5), False, id="an-old-inspection"),
        pytest.param(away, False, id="it-does-not-answer"),
    ],
)
def test_where_others_have_committed_more_an_append_is_read_back(now, expected):
    committed = log("5:abcd")
    registered = partition("1 2", hw=4, hw_epoch=5, hw_chain=committed.chain_digest)

    appended = Appended(LOG, LOG.batches[1], is_duplicate=False)
    assert is_acknowledged(registered, appended, Leader(now)) is expected


def store_of(text):
    state = log(text)
    here = address(1)
    store = MemoryReplicaStore(MemoryRoots({here.root: disk(1)}))
    store.create(here)
    opened = store.open(here)
    change = LogChange(
        operation="setup",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        adds=state.batches,
    )
    opened.commit(opened.load(), change)
    return store


def conditional(name, expected):
    return PartitionBatch(key=KEY, staged=staged(name), holders=(), expected_offset=expected)


def ends(image, store, parts, others):
    """Check the ends of what an append reads of leaders' logs, as it does."""
    logs = {
        key: read_leader(node_of(None, FakeClock(), replicas=store), image, key)
        for key in [*(part.key for part in parts), *others]
    }
    check_ends(logs, parts, others)


LED = image_of(partition("1 2", epoch=0))


def test_a_conditional_append_is_refused_where_the_log_ends_elsewhere():
    ends(LED, store_of("0:ab"), [conditional("c", 2)], {})
    for expected in (1, 3):
        with pytest.raises(UnexpectedOffsetError):
            ends(LED, store_of("0:ab"), [conditional("c", expected)], {})


def test_a_conditional_append_that_stands_already_is_no_reason_to_refuse_its_retry():
    """Nor where other partitions' logs have grown since."""
    store = store_of("0:ab")
    again = PartitionBatch(
        key=KEY,
        staged=replace(staged("z"), segments=store.open(address(1)).load().batches[1].segments),
        holders=(),
        expected_offset=1,
    )

    ends(LED, store, [again], {})
    ends(LED, store, [again], {KEY: 1})
    with pytest.raises(UnexpectedOffsetError):
        ends(LED, store, [conditional("c", 2)], {KEY: 1})


def test_a_partition_without_a_log_ends_at_0():
    unmade = image_of(partition("1 2", unmade="1 2"))

    ends(unmade, store_of(""), [conditional("c", 0)], {})
    with pytest.raises(UnexpectedOffsetError, match="nothing was appended to it yet"):
        ends(unmade, store_of(""), [conditional("c", 1)], {})


def test_a_partition_that_is_gone_ends_at_0():
    ends(image_of(), store_of(""), [conditional("c", 0)], {})
    with pytest.raises(UnexpectedOffsetError):
        ends(image_of(), store_of(""), [conditional("c", 1)], {})


BATCH = staged("a", "2 1", epoch=5)


@pytest.fixture
def store(roots):
    return MemorySegmentStore(roots)


def part(*holders):
    return PartitionBatch(key=KEY, staged=BATCH, holders=tuple(address(each) for each in holders))


def test_files_that_no_holder_has_are_an_error(roots, store):
    for each in (2, 3):
        roots[address(each).root].is_offline = True

    with pytest.raises(KafkaStorageError, match="the root does not answer"):
        place_files(store, part(2, 3), address(1), 5)
    with pytest.raises(KafkaStorageError, match="no root has the files"):
        place_files(store, part(), address(1), 5)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_call_to_a_root_that_fails_or_hangs_is_its_own_result_alone(hangs):
    released = threading.Event()

    def work(where):
        if where.broker_id != 2:
            return where.broker_id
        if hangs:
            return within(where.root, released.wait, 0.05)
        raise KafkaStorageError("away")

    try:
        first, failed, third = AppendThreads(None).at_roots(work, map(address, (1, 2, 3)))
    finally:
        released.set()

    assert (first, third) == (1, 3)
    assert isinstance(failed, KafkaStorageError)

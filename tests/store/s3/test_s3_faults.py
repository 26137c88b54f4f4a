"""A commit on S3 whose store fails: it never gets a wrong answer."""

import logging
import random
import time
import traceback
from contextlib import suppress
from itertools import count

import pytest
from s3fs import S3FileSystem

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.store.counts import requests_sent
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_files import (
    checkpoints_in,
    commit_path,
    commits_in,
    log_folder,
    write_id_of,
)
from kafka_on_spark.store.delta.delta_log import CommitFiles
from kafka_on_spark.store.delta.log_cleaning import first_kept
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.store.committers import note_write_ids
from tests.store.delta.cleaning import shorten
from tests.store.s3.faulty_s3 import BUCKET, CANARY, HANG_SECONDS, Kind, faulty_s3
from tests.store.tables import commit, commit_times, create, damages_of, live, opened

LONG = pytest.mark.long
FOR_EVER = -1
NUMBERS = count()

# What each call meets in a run that is not long; that a commit stands them all, each run shows.
MET = (Kind.ERROR_AFTER, Kind.CONFLICT_BEFORE, Kind.LATE, Kind.DROP_AFTER)
MET_BY_ALL = [pytest.param(kind, marks=[LONG] * (kind not in MET), id=kind.name) for kind in Kind]


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture
def options(store, request):
    """Return the options of a client that is to meet the fault of the test's parameter."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return StorageOptions(store.options(given.get("kind")))


@pytest.fixture(autouse=True)
def _fast_and_discreet(store, monkeypatch, caplog):
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS", 0.4)
    # s3fs tries five times, with pauses, before we hear of an error: two show that it tries again.
    monkeypatch.setattr(S3FileSystem, "retries", 2)
    caplog.set_level(logging.DEBUG, logger="kafka_on_spark")
    yield
    store.recover()
    store.struck.clear()
    assert CANARY not in caplog.text


@pytest.fixture
def uri(store):
    return f"s3://{BUCKET}/broker/{next(NUMBERS)}"


@pytest.fixture
def log(uri, options):
    """Return an open table at version 1."""
    create(uri, options)
    log = opened(uri, options)
    commit(log, 0)
    log.refresh()
    return log


@pytest.fixture
def written(monkeypatch):
    """Record the write ids of the commits that are begun."""
    monkeypatch.setattr(
        delta_log, "encode_commit", delta_log.encode_commit
    )  # so that the original is restored
    return note_write_ids()


def outcome(act):
    """Return the kind of error that `act` raises, or None; no text of it holds the secret."""
    told = None
    try:
        act()
    except KafkaOnSparkError as error:
        told = error
    assert CANARY not in "".join(traceback.format_exception(told))
    assert CANARY not in repr(told)
    return None if told is None else type(told)


def id_at(uri, version, options):
    content = RootFiles(uri, options).read(commit_path(uri, version), 10**6)
    return None if content is None else write_id_of(content)


@pytest.mark.parametrize(
    "kind, looks",
    [(Kind.SLOW, 1), (Kind.ERROR_BEFORE, 2), (Kind.DROP_BEFORE, 2)],
    ids=["once", "twice", "twice, by a connection that was dropped"],
)
def test_a_put_that_was_sent_twice_is_told_from_its_twin_by_a_look(log, store, kind, looks):
    store.order(kind)
    before = requests_sent()

    commit(log, 1)

    sent = requests_sent() - before
    assert sum(count for (_, sort), count in sent.items() if sort == "HEAD") == looks


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
def test_a_commit_succeeds_through_one_failure_of_any_kind(log, uri, options, store, written, kind):
    store.order(kind)

    commit(log, 1)

    assert store.struck == [kind]
    assert id_at(uri, 2, options) == written[0]
    if kind is Kind.LATE:
        time.sleep(HANG_SECONDS)
        assert id_at(uri, 2, options) == written[0]
    # An answer that was lost must not lead to the same commit at the next version.
    assert id_at(uri, 3, options) is None
    assert log.refresh() == 2


@pytest.mark.parametrize("kind", MET_BY_ALL)
def test_commit_that_a_rival_overtakes_conflicts_whatever_fails(
    log, uri, options, store, written, kind
):
    rival = opened(uri, options)
    # Between the check for newer versions and the put.
    store.before_put = lambda: commit(rival, 1)
    store.order(kind)

    with pytest.raises(CommitConflictError):
        commit(log, 1)

    assert store.struck == [kind]
    assert id_at(uri, 2, options) == written[1]
    if kind is Kind.LATE:
        time.sleep(HANG_SECONDS)
        assert id_at(uri, 2, options) == written[1]
    assert id_at(uri, 3, options) is None


@pytest.mark.parametrize(
    "kind",
    [Kind.ERROR_BEFORE, Kind.CONFLICT_BEFORE, Kind.DENIED, Kind.DROP_BEFORE],
    ids=lambda kind: kind.name,
)
def test_a_commit_that_never_lands_is_unknown_and_may_succeed_later(log, uri, options, store, kind):
    store.order(kind, count=FOR_EVER)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, 1)

    store.recover()
    assert id_at(uri, 2, options) is None
    assert log.refresh() == 1
    commit(log, 1)


def test_a_store_that_denies_a_commit_is_asked_once_more_and_named(log, store, monkeypatch):
    """Waiting gives no permission. Its client may have put the commit before it was denied."""
    puts = []
    put = CommitFiles.put
    monkeypatch.setattr(
        CommitFiles, "put", lambda *given, **named: puts.append(given) or put(*given, **named)
    )
    store.order(Kind.DENIED, count=FOR_EVER)

    with pytest.raises(CommitOutcomeUnknownError) as failed:
        commit(log, 1)

    assert isinstance(failed.value.__cause__, RootAccessDeniedError)
    assert len(puts) == 2


@pytest.mark.parametrize(
    "kind", [Kind.ERROR_AFTER, Kind.CONFLICT_AFTER, Kind.DROP_AFTER], ids=lambda kind: kind.name
)
def test_commit_whose_answers_are_all_lost_is_read_back(log, uri, options, store, written, kind):
    store.order(kind, count=FOR_EVER)

    commit(log, 1)

    assert id_at(uri, 2, options) == written[0]


def test_no_put_asks_before_it_sends_since_a_client_waits_for_that_without_limit(log, store):
    """Else a store that hangs holds a commit for minutes, whatever time its options give."""
    commit(log, 1)

    assert store.asking == []


UNANSWERED = [Kind.ERROR_BEFORE, Kind.DENIED, Kind.DROP_BEFORE]
ASKED_FOR = [BUCKET, ".json", ".checkpoint.parquet"]


@pytest.mark.parametrize(
    "suffix, kind",
    [
        # Each kind and each suffix once, and in a long run each pair.
        pytest.param(suffix, kind, marks=[LONG] * (i != k), id=f"{suffix}-{kind.name}")
        for i, suffix in enumerate(ASKED_FOR)
        for k, kind in enumerate(UNANSWERED)
    ],
)
def test_store_that_does_not_answer_is_no_damage_and_no_loss(
    log, uri, options, store, monkeypatch, kind, suffix
):
    """A replica is given up for damage or loss; a moment without an answer must be neither."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 1)
    commit(log, 1)
    log.checkpoint_if_due()
    for method in ("GET", "HEAD"):
        store.order(kind, method=method, suffix=suffix, count=FOR_EVER)

    told = outcome(log.refresh), outcome(lambda: opened(uri, options))

    assert all(each is None or issubclass(each, KafkaStorageError) for each in told)
    assert told[1] is not None
    store.recover()
    assert log.refresh() == 2


@pytest.mark.parametrize("kind", MET_BY_ALL)
def test_a_table_is_opened_through_a_failure_of_one_of_its_commits(log, uri, options, store, kind):
    commit_times(log, 3)
    store.order(kind, method="GET", suffix="2.json")

    opens = outcome(lambda: opened(uri, options))

    assert store.struck == [kind]
    assert opens in (None, KafkaStorageError)
    store.recover()
    assert opened(uri, options).version == 4


@pytest.mark.parametrize("kind", MET_BY_ALL)
def test_a_put_never_takes_anothers_place_nor_its_name(uri, options, store, kind):
    files = RootFiles(uri, options)
    path = commit_path(uri, 0)
    assert files.write_if_absent(path, b"others")
    store.order(kind)

    assert not files.write_if_absent(path, b"mine")

    assert store.struck == [kind]
    time.sleep(HANG_SECONDS if kind is Kind.LATE else 0)
    assert files.read(path, 10) == b"others"


METHODS = ("PUT", "GET", "HEAD", "DELETE", "POST")
FAULTS = (
    Kind.ERROR_AFTER,
    *(pytest.param(each, marks=LONG) for each in (Kind.ERROR_BEFORE, Kind.BUSY, Kind.DENIED)),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_store_that_fails_now_and_then_loses_nothing_and_is_cleaned(
    log, uri, store, options, monkeypatch, fault
):
    """Whatever request fails: of a commit, a follower, a checkpoint or a cleaner."""
    shorten(monkeypatch, interval=2, kept=2)
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS", 0.1)
    dice = random.Random(fault.name)
    told = []
    while log.version < 6:
        method = dice.choice(METHODS)
        store.order(fault, method=method, suffix=dice.choice([".json", ".parquet", "", "t"]))
        with suppress(KafkaStorageError, CommitConflictError, CommitOutcomeUnknownError):
            commit(log, log.refresh())
            told.append(log.version)
        with suppress(KafkaStorageError):
            log.checkpoint_if_due()
        store.recover()

    live(log, 6)
    again = opened(uri, options)
    assert again.counters() == {"count": again.version} == {"count": log.version}
    assert set(told) <= set(range(log.version + 1))
    names = RootFiles(uri, options).names(log_folder(uri))
    assert min(commits_in(names)) == first_kept(checkpoints_in(names)) > 0
    assert damages_of(uri, options) == []

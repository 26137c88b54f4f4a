"""What commits, followers, checkpoints and cleaners promise on each kind of root: disk and store."""

import random
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.storage.delta import (
    commit_outcomes,
    conditional_commit,
    log_cleaning,
    opening,
)
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.files.commit_files import CommitFiles
from kafka_on_spark.storage.delta.files.delta_files import (
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commits_in,
    hint_path,
    log_folder,
)
from kafka_on_spark.storage.delta.log_cleaning import clean_log
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions
from tests.storage.s3.faulty_s3 import BUCKET, Kind, faulty_s3
from tests.storage.tables import (
    asleep,
    commit,
    commit_times,
    create,
    damages_of,
    live,
    opened,
    put_stray,
)

INTERVAL = 2
KEPT = 2
LONG = 9
SEEN = 1
NUMBERS = count()


class Place:
    """A table's place.

    Attributes:
        uri: The table's folder.
        options: How it is reached.
        files: Its root's files.
        store: The server, None on a disk.
    """

    def __init__(self, uri, options, store):
        self.uri = uri
        self.options = options
        self.files = RootFiles(uri, options)
        self.store = store

    def opened(self):
        return opened(self.uri, self.options)

    def names(self):
        return self.files.names(log_folder(self.uri))

    def commits(self):
        return sorted(commits_in(self.names()))

    def checkpoints(self):
        return sorted(checkpoints_in(self.names()))

    def stray(self, version):
        put_stray(self.uri, version, self.options)

    def clean(self):
        return clean_log(self.files, self.uri)

    def change(self, path, damage):
        """Put what a damage makes of a file in its place; nothing, if that is None."""
        content = damage(self.files.read(path, 10**9))
        self.files.delete(path)
        if content is not None:
            self.files.write(path, content)

    def check_whole(self, version):
        """Check that a table opens at a version, and that an audit finds nothing."""
        log = self.opened()
        assert (log.version, log.counters()) == (version, {"count": version})
        assert damages_of(self.uri, self.options) == []


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture(params=["disk", "S3"])
def place(request, tmp_path, store):
    if request.param == "disk":
        (tmp_path / "root").mkdir()
        yield Place(str(tmp_path / "root" / "table"), StorageOptions(), None)
        return
    place = Place(
        f"s3://{BUCKET}/root/{next(NUMBERS)}", StorageOptions(store.options(timeout="5s")), store
    )
    yield place
    store.recover()
    if place.names():
        copy_to(tmp_path / "copy" / "_delta_log", place)


def copy_to(folder, place):
    """Copy a table to a disk, where all engines open it."""
    folder.mkdir(parents=True)
    for name in place.names():
        path = f"{log_folder(place.uri)}/{name}"
        Path(folder, name).write_bytes(place.files.read(path, 10**9))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Have checkpoints often, keep few commits, and give up soon."""
    monkeypatch.setattr(conditional_commit, "CHECKPOINT_INTERVAL", INTERVAL)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", KEPT)
    monkeypatch.setattr(commit_outcomes, "RESOLVE_SECONDS", 0.3)
    monkeypatch.setattr(commit_outcomes, "RESOLVE_SECONDS_LOCAL", 0.05)


@pytest.fixture
def log(place):
    """Return an open table at version 1."""
    create(place.uri, place.options)
    log = place.opened()
    commit(log, 0)
    return log


@pytest.fixture
def rival(log, place):
    return place.opened()


@pytest.fixture
def cleaned(log):
    """Return a table at version 10: commits from 6 on, checkpoints at 6, 8 and 10."""
    live(log, LONG)
    return log


# Following and committing


def test_a_follower_reads_each_commit_of_others_once_and_lists_nothing(
    log, place, rival, monkeypatch
):
    commit_times(rival, 2)
    asked, read = [], CommitFiles.read

    def noting(files, version):
        asked.append(version)
        return read(files, version)

    monkeypatch.setattr(CommitFiles, "read", noting)
    monkeypatch.setattr(RootFiles, "names", None)

    assert [each.version for each in log.follow()] == [2, 3]
    assert log.follow() == []
    assert asked == [2, 3, 4, 4]
    assert log.is_still_at(3)
    monkeypatch.undo()


def test_a_writer_that_is_behind_conflicts_and_leaves_no_trace(log, place, rival):
    commit(rival, SEEN)
    before = place.names()

    with pytest.raises(CommitConflictError):
        commit(log, SEEN)

    assert place.names() == before
    assert log.refresh() == 2


@pytest.mark.parametrize("is_landed", [True, False])
def test_a_put_whose_answer_is_lost_is_this_writers_once(log, place, monkeypatch, is_landed):
    put, calls = CommitFiles.put, []

    def lose(files, version, content, **others):
        calls.append(version)
        if is_landed or len(calls) > 1:
            put(files, version, content, **others)
        if len(calls) == 1:
            raise KafkaStorageError("timed out")
        return True

    monkeypatch.setattr(CommitFiles, "put", lose)

    commit(log, SEEN)

    assert calls == ([2] if is_landed else [2, 2])
    assert place.commits() == [0, 1, 2]


def test_a_put_that_lands_nowhere_is_unknown(log, monkeypatch):
    def lose(files, version, content, **others):
        raise KafkaStorageError("timed out")

    with monkeypatch.context() as losing:
        losing.setattr(CommitFiles, "put", lose)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    assert log.refresh() == SEEN


def test_a_table_that_is_there_is_not_created(log, place):
    with pytest.raises(CommitConflictError):
        create(place.uri, place.options)


def test_a_table_that_is_gone_is_lost(log, place):
    place.files.delete(place.uri)

    for each in (log, DeltaLog(place.uri, place.options)):
        with pytest.raises(ReplicaLostError):
            each.refresh()


# Checkpoints and cleaning


def test_the_log_stays_short(log, place):
    live(log, 2)
    assert place.checkpoints() == [2]
    assert place.commits() == list(range(4))

    live(log, LONG)

    assert place.checkpoints() == [8, 10, 12]
    assert place.commits() == list(range(8, 13))
    place.check_whole(12)


def cleaned_up_to(place):
    """Return the bound below which everything is to go, by what is there."""
    return log_cleaning.first_kept(place.checkpoints())


@pytest.fixture
def uncleaned(log, monkeypatch):
    """Return a table of which much can be cleaned, and was not."""
    with monkeypatch.context() as kept:
        kept.setattr(log_cleaning, "COMMITS_KEPT", 10**6)
        live(log, LONG)
    return log


def on_delete(monkeypatch, act):
    """Have something happen before each deletion, with its number and path."""
    delete, numbers = log_cleaning._delete, count()

    def first_act(files, uri, path):
        act(next(numbers), path)
        delete(files, uri, path)

    monkeypatch.setattr(log_cleaning, "_delete", first_act)


def test_commits_go_in_ascending_order_and_checkpoints_after_them(uncleaned, place, monkeypatch):
    gone = []
    on_delete(monkeypatch, lambda number, path: gone.append(path))

    assert place.clean() == 6

    assert gone == [
        *(commit_path(place.uri, version) for version in range(6)),
        *(checkpoint_path(place.uri, version) for version in (2, 4)),
    ]
    assert place.commits() == list(range(6, 11))
    assert place.checkpoints() == [6, 8, 10]
    place.check_whole(10)


@pytest.mark.parametrize("number", [0, 3, 7])
def test_a_cleaner_stops_at_the_first_file_that_it_can_not_delete(
    uncleaned, place, monkeypatch, number
):
    follower = place.opened()

    def refuse(at, path):
        if at == number:
            raise KafkaStorageError("no")

    with monkeypatch.context() as refusing:
        on_delete(refusing, refuse)
        with pytest.raises(KafkaStorageError):
            place.clean()

    assert place.commits() == list(range(min(number, 6), 11))
    place.check_whole(10)
    assert follower.follow() == []
    place.clean()
    assert place.commits() == list(range(6, 11))


@pytest.mark.parametrize("number", [0, 4])
def test_two_cleaners_take_nothing_that_is_needed(uncleaned, place, monkeypatch, number):
    """One sleeps before some file while the other cleans, and the table lives on."""
    other = place.opened()

    def sleep(at, path):
        if at == number:
            monkeypatch.undo()
            monkeypatch.setattr(conditional_commit, "CHECKPOINT_INTERVAL", INTERVAL)
            monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", KEPT)
            assert place.clean() == 6 - number
            live(other, 4)
            place.stray(7)

    on_delete(monkeypatch, sleep)
    place.clean()

    place.check_whole(14)
    commit(other, 14)
    assert uncleaned.refresh() == 15


@pytest.mark.parametrize("version", [0, 3])
def test_a_stray_commit_hinders_nobody_and_the_next_cleaner_takes_it(cleaned, place, version):
    place.stray(version)

    place.check_whole(10)
    assert cleaned.refresh() == 10
    live(cleaned, INTERVAL)
    assert version not in place.commits()
    place.check_whole(12)


# Processes that were frozen


def check_frozen(place, late, rival):
    """Check that a table is what its living process made of it, and that the late one sees it."""
    assert not late.is_still_at(SEEN)
    assert late.refresh() == rival.version
    place.check_whole(rival.version)
    commit(late, late.version)
    rival.refresh()
    live(rival, INTERVAL)
    assert min(place.commits()) > SEEN + 1


POINTS = {
    "before the put": ("put", False, 0),
    "after the put": ("put", True, 0),
    "before the put is vouched for": ("stamps", False, -1),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_that_sleeps_in_a_commit_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch, point
):
    name, is_after, call = POINTS[point]

    def meanwhile():
        rival.refresh()
        live(rival, LONG)

    with monkeypatch.context() as sleeping:
        # On a disk there is a look before the put, too.
        call = call if call == 0 else int(place.store is None)
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=is_after, call=call)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


@pytest.mark.parametrize("is_landed", [True, False])
def test_a_writer_that_sleeps_after_an_error_of_its_put_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch, is_landed
):
    put = CommitFiles.put

    def fail_late(files, version, content, **others):
        monkeypatch.setattr(CommitFiles, "put", put)
        if is_landed:
            put(files, version, content, **others)
        rival.refresh()
        live(rival, LONG)
        raise KafkaStorageError("timed out")

    monkeypatch.setattr(CommitFiles, "put", fail_late)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, SEEN)

    check_frozen(place, log, rival)


def test_a_writer_whose_version_a_stray_holds_is_not_told_a_conflict(
    log, place, rival, monkeypatch
):
    def meanwhile():
        live(rival, LONG)
        place.stray(SEEN + 1)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


def test_a_writer_whose_last_commit_another_one_replaces_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch
):
    """Strays stand in both places: only the ETag and the time tell, or the inode."""

    def meanwhile():
        live(rival, LONG)
        place.stray(SEEN)
        place.stray(SEEN + 1)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


def test_a_writer_that_slept_for_a_few_commits_is_told_a_conflict(log, rival, monkeypatch):
    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", partial(live, rival, 4), is_after=False)
        with pytest.raises(CommitConflictError):
            commit(log, SEEN)

    assert log.refresh() == SEEN + 4


def test_a_creator_that_sleeps_makes_no_second_table(place, monkeypatch):
    def meanwhile():
        create(place.uri, place.options)
        live(place.opened(), LONG)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitConflictError):
            create(place.uri, place.options)

    place.check_whole(LONG)


@pytest.mark.parametrize("strays", [(), (SEEN,), (SEEN, SEEN + 1)])
def test_a_follower_that_slept_opens_the_table_anew(log, place, rival, strays):
    live(rival, LONG)
    for version in strays:
        place.stray(version)

    assert log.follow() is None
    assert log.version == rival.version
    check_frozen(place, log, rival)


@pytest.mark.parametrize(
    "name, is_after, call", [("read", False, 0), ("read", True, 0), ("stamps", False, 0)]
)
def test_a_follower_that_sleeps_between_two_looks_believes_neither(
    log, place, rival, monkeypatch, name, is_after, call
):
    commit(rival, SEEN)

    def meanwhile():
        live(rival, LONG)
        place.stray(SEEN + 1)
        place.stray(SEEN + 2)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=is_after, call=call)
        log.refresh()

    check_frozen(place, log, rival)


@pytest.mark.parametrize(
    "holder, name, is_after, call",
    [
        pytest.param(RootFiles, "names", True, 0, id="after the listing"),
        pytest.param(opening, "read_checkpoint", False, 0, id="before the checkpoint"),
        pytest.param(opening, "read_checkpoint", True, 0, id="after the checkpoint"),
        pytest.param(CommitFiles, "read", True, 0, id="after the first commit"),
        pytest.param(CommitFiles, "stamp", False, 1, id="before the last look"),
    ],
)
def test_a_process_that_sleeps_while_it_opens_a_table_opens_it_as_it_is(
    log, place, rival, monkeypatch, holder, name, is_after, call
):
    live(rival, 6)
    late = DeltaLog(place.uri, place.options)

    def meanwhile():
        live(rival, LONG)
        place.stray(7)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, holder, name, meanwhile, is_after=is_after, call=call)
        late.refresh()

    assert late.refresh() == rival.version
    check_frozen(place, late, rival)


# Checkpoints and hints that can't be read

DAMAGES = {
    "empty": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "gone": lambda content: None,
}


@pytest.mark.parametrize(
    "damage, versions",
    [
        ("empty", (10,)),
        ("halved", (8, 10)),
        ("zeroed", (6, 8)),
        ("zeroed", (10,)),
        ("gone", (8, 10)),
    ],
)
def test_two_checkpoints_may_be_damaged(cleaned, place, damage, versions):
    assert place.checkpoints() == [6, 8, 10]
    for version in versions:
        place.change(checkpoint_path(place.uri, version), DAMAGES[damage])

    log = place.opened()
    assert (log.version, log.counters()) == (10, {"count": 10})

    live(log, 3 * INTERVAL + 1)
    assert place.checkpoints()[-3:] == [12, 14, 16]
    place.check_whole(17)


@pytest.mark.damaged("a commit is missing")
@pytest.mark.parametrize("damage", ["halved", "gone"])
def test_without_a_checkpoint_that_can_be_read_nothing_is_believed_and_nothing_deleted(
    cleaned, place, damage
):
    for version in place.checkpoints():
        place.change(checkpoint_path(place.uri, version), DAMAGES[damage])
    before = place.commits()

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="a commit is missing"):
            place.opened()

    assert place.commits() == before
    assert place.clean() == 0


@pytest.mark.parametrize(
    "hint",
    [
        None,
        b"",
        b"[" * 100_000,
        b'{"version":"8"}',
        b'{"version":2,"size":3}',
        b'{"version":8,"size":3}',
        b'{"version":1000000,"size":3}',
    ],
)
def test_a_hint_that_misleads_does_no_harm(cleaned, place, hint):
    place.change(hint_path(place.uri), lambda content: hint)

    log = place.opened()
    assert (log.version, log.counters()) == (10, {"count": 10})

    live(log, 3 * INTERVAL + 1)
    assert place.checkpoints() == [12, 14, 16]
    place.check_whole(17)


# Failures of a store, and of nothing else

FAULTS = (Kind.ERROR_BEFORE, Kind.ERROR_AFTER, Kind.BUSY, Kind.DENIED, Kind.DROP_AFTER)
METHODS = ("PUT", "GET", "HEAD", "DELETE", "POST")


@pytest.mark.parametrize("place", ["S3"], indirect=True)
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_a_store_that_fails_now_and_then_loses_nothing_and_is_cleaned(log, place, kind):
    """Whatever request fails: of a commit, a follower, a checkpoint or a cleaner."""
    dice = random.Random(kind.name)
    told = []
    while log.version < 12:
        method = dice.choice(METHODS)
        place.store.order(kind, method=method, suffix=dice.choice([".json", ".parquet", "", "t"]))
        with suppress(KafkaStorageError, CommitConflictError, CommitOutcomeUnknownError):
            version = log.refresh()
            commit(log, version)
            told.append(log.version)
        with suppress(KafkaStorageError):
            log.checkpoint_if_due()
        place.store.recover()

    live(log, 3 * INTERVAL)
    assert place.opened().counters() == {"count": log.version}
    assert set(told) <= set(range(log.version + 1))
    assert place.commits()[0] == cleaned_up_to(place) > 0
    place.check_whole(log.version)


@pytest.mark.parametrize("place", ["S3"], indirect=True)
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_a_cleaner_whose_store_fails_stops_and_another_goes_on(uncleaned, place, kind):
    for method in ("DELETE", "POST"):
        place.store.order(kind, method=method, suffix="", count=-1)

    with suppress(KafkaStorageError):
        place.clean()

    left = place.commits()
    assert left == list(range(left[0], 11))
    place.store.recover()
    place.check_whole(10)
    place.clean()
    assert place.commits() == list(range(6, 11))
    place.check_whole(10)

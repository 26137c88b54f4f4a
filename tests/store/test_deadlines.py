"""A call that hangs is left behind, and nothing waits for it longer than its root is given."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store import deadlines
from kafka_on_spark.store.deadlines import RootLock, begin, extend_deadline, within

SHORT = 0.05


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """What a call waits for that hangs; it comes back when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_hangs_is_left_behind_with_an_error_that_names_its_root(
    hang: threading.Event,
) -> None:
    with pytest.raises(KafkaStorageError, match=r"^/hangs does not answer"):
        within("/hangs", hang.wait, SHORT)


def test_an_operation_may_compute_for_longer_than_a_touch_of_its_root_may_take() -> None:
    def work() -> str:
        within("/a", lambda: None, SHORT)
        time.sleep(4 * SHORT)
        return "done"

    assert within("/a", work) == "done"


class HeldClock:
    """A clock that stands until the test moves it, in the place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_a_long_touch_that_comes_on_is_no_hanging_one(
    monkeypatch: pytest.MonkeyPatch, hang: threading.Event
) -> None:
    clock = HeldClock()
    monkeypatch.setattr(deadlines, "time", clock)

    def read(comes_on: bool) -> int:
        for _ in range(8):
            clock.now += SHORT / 2
            time.sleep(SHORT)  # the caller reads the clock meanwhile
            if comes_on:
                extend_deadline(SHORT)
        if not comes_on:
            hang.wait()  # however late the caller reads it
        return 8

    assert within("/a", lambda: read(comes_on=True), SHORT) == 8
    with pytest.raises(KafkaStorageError, match="a call to it hangs"):
        within("/a", lambda: read(comes_on=False), SHORT)


def test_at_most_so_many_calls_hang_at_one_root_and_others_are_not_concerned() -> None:
    hang = threading.Event()
    for _ in range(deadlines.STUCK_MAX):
        with pytest.raises(KafkaStorageError, match="a call to it hangs"):
            within("/bounded", hang.wait, SHORT)

    with pytest.raises(KafkaStorageError, match="4 calls to it hang"):
        within("/bounded", lambda: pytest.fail("it was begun"), SHORT)
    assert within("/other", lambda: 1, 5.0) == 1

    hang.set()
    assert _eventually(lambda: within("/bounded", lambda: 2, 5.0)) == 2


def test_a_call_that_has_no_thread_by_its_deadline_is_never_made(hang: threading.Event) -> None:
    calls = [deadlines.begin("/full", hang.wait) for _ in range(deadlines.THREADS_A_ROOT)]

    with pytest.raises(KafkaStorageError, match=r"^/full does not answer: all its threads"):
        within("/full", lambda: pytest.fail("it was made"), SHORT)
    hang.set()
    assert all(each.in_time() for each in calls)


def test_two_roots_whose_threads_all_copy_from_each_other_go_on() -> None:
    both = threading.Barrier(2 * deadlines.THREADS_A_ROOT)

    def copy(source: str) -> int:
        both.wait(60.0)
        return within(source, lambda: 1, 60.0)

    calls = [
        deadlines.begin(target, partial(copy, source))
        for target, source in (("/one", "/two"), ("/two", "/one"))
        for _ in range(deadlines.THREADS_A_ROOT)
    ]

    assert sum(each.in_time() for each in calls) == len(calls)


def test_a_call_that_needs_another_root_waits_in_its_own_thread_and_hangs_in_that_roots(
    hang: threading.Event,
) -> None:
    """So a copy from a root that hangs takes no thread for good of the one that it is made on."""

    def copy() -> tuple[str, str]:
        name = threading.current_thread().name
        return name, within("/source", lambda: threading.current_thread().name, 5.0)

    assert within("/copied", copy) == ("/copied", "/source")
    with pytest.raises(deadlines.RootHangsError, match=r"^/source does not answer"):
        within("/copied", lambda: within("/source", hang.wait, SHORT))
    assert within("/copied", lambda: 1, 5.0) == 1


def _eventually(ask: Callable[[], int]) -> int:
    for _ in range(200):
        try:
            return ask()
        except KafkaStorageError:
            time.sleep(0.05)
    return ask()


def test_what_was_left_behind_touches_its_root_no_more_when_it_comes_back() -> None:
    hang, touched = threading.Event(), threading.Event()

    def work() -> None:
        within("/late", hang.wait, SHORT)
        within("/late", touched.set, SHORT)

    with pytest.raises(KafkaStorageError):
        within("/late", work)
    hang.set()

    _eventually(lambda: within("/late", lambda: 1, 5.0))
    assert not touched.wait(0.5)


def test_a_waiter_for_a_lock_whose_owner_hangs_gets_an_error(hang: threading.Event) -> None:
    lock = RootLock("/locked")

    def hold() -> None:
        with lock:
            within("/locked", hang.wait, SHORT)

    def want() -> None:
        with lock, lock:
            pass

    with pytest.raises(KafkaStorageError):
        within("/locked", hold)
    with pytest.raises(KafkaStorageError, match=r"^/locked does not answer"):
        within("/locked", want)


ENDS = """
import threading
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.base.errors import KafkaStorageError
pool, begun = DaemonThreads(2, "hang"), threading.Event()
def hang():
    try:
        within("/root", threading.Event().wait, 0.05)
    except KafkaStorageError as error:
        print(error)
def for_ever():
    begun.set()
    threading.Event().wait()
pool.submit(hang).result()
pool.submit(for_ever)
begun.wait()
"""


def test_a_process_ends_though_calls_of_it_hang() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "/root does not answer" in done.stdout


LATE = """
import threading
from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store import deadlines
from kafka_on_spark.store.deadlines import within
deadlines.LATE_EXIT_SECONDS = 30.0  # a machine under load takes longer than a second for that
left = threading.Event()
def work():
    left.wait()
    threading.Event().wait(0.3)  # as long as the interpreter may need to end
    print("it came back", flush=True)
try:
    within("/root", work, 0.05)
except KafkaStorageError:
    left.set()
"""


def test_a_call_that_is_late_comes_back_before_the_interpreter_ends() -> None:
    """Native code that comes back later would abort the process."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "it came back\n", "")


def test_a_whole_operation_may_be_given_less_time_than_its_touches(hang: threading.Event) -> None:
    def work() -> None:
        within("/op", lambda: None, 60.0)
        within("/op", hang.wait, 60.0)

    with pytest.raises(KafkaStorageError, match=r"^/op does not answer"):
        begin("/op", work).in_time(SHORT)


class _Held:
    """Tells when its last reference is gone, and in which thread."""

    def __init__(self, released: list[str]) -> None:
        self._released = released

    def __del__(self) -> None:
        self._released.append(threading.current_thread().name)


def test_what_a_call_returns_and_what_its_work_held_is_the_callers_to_release() -> None:
    released: list[str] = []
    held = _Held(released)

    def work(held: _Held = held) -> _Held:
        return held

    call = deadlines.begin("/a", work)
    del work, held
    returned = call.result()
    del call

    assert released == []
    del returned
    assert released == [threading.current_thread().name]

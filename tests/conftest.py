"""What holds for every test, and for every process that a test starts."""

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Generator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests import jvms

VARIABLE = "SPARK_SUBMIT_OPTS"
YOUNG_MAX = 100_000
"""Objects that may be made before a look for cycles among them; Python's own figure is 700."""

SESSION = "the files that share the Spark session"
COMPUTING = {"conformance", "power", "search", "simulation"}
"""Folders of tests that need a processor all the time."""

LONG_ONLY = "only with --long: a minute or more, or more of what another case shows"

SECONDS_OF_OTHERS = 10
LONG_SECONDS = 100
SECONDS = {
    SESSION: 500,
    "test_local_cluster.py": 500,
    "test_torture_run.py": 190,
    "test_quickstart_kill.py": 120,
    "test_torture_quorum.py": 60,
    "test_delta_jars.py": 40,
    "test_aimed.py": 130,
    "test_small_scope.py": 40,
    "test_states_of_upkeep.py": 40,
    "test_simulation.py": 30,
    "test_log_search.py": 25,
    "test_search_mutants.py": 25,
}
"""About how long the longest files take beside others, on two cores; it decides nothing but when they
begin."""

_TAKES_SESSION = re.compile(r"^def \w+\([^)]*\bspark\b", re.MULTILINE)


def pytest_configure(config: pytest.Config) -> None:
    """Have Spark's own launcher, which reads this, start quick drivers; what is set already wins.

    And have hypothesis try the same examples each time, so that a change is not refused for what it
    did not do; new ones with --long. It judges no time: a machine that does other work takes long.
    """
    hypothesis.settings.register_profile(
        "ours",
        deadline=None,
        derandomize=not config.getoption("--long"),
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("ours")
    given = os.environ.get(VARIABLE, "")
    if jvms.DRIVER not in given:
        os.environ[VARIABLE] = f"{jvms.DRIVER} {given}".strip()
    _save_processor_time()
    _let_signals_through()


def _let_signals_through() -> None:
    """Have what tests start heed all signals, and this process ignore those that it ignored.

    Tests in the background of a shell ignore SIGINT, under nohup SIGHUP, and what they started would.
    A handler is not passed on to another program; that a signal is ignored is.
    """
    for each in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, lambda *_: None)


def _save_processor_time() -> None:
    """Leave out work that shows nothing, here and in the processes that tests start.

    Most objects of a test go by themselves, and a look for cycles goes through all that are young.
    numpy's library starts a thread for each processor, which spins. A variable of many images keeps
    Python from storing what it compiles: each of several hundred processes would compile the package
    again.
    """
    gc.set_threshold(YOUNG_MAX)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Find the tests without looking for garbage: modules, tests and vectors stay, so that each look
    goes through more of them in vain; and no later look goes through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m smoke` leave out files without such a test: to import all takes longer than its tests."""
    if config.option.markexpr != "smoke" or not collection_path.name.startswith("test_"):
        return None
    return None if b"pytest.mark.smoke" in collection_path.read_bytes() else True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the cases marked long, too")
    parser.addoption(
        "--stores",
        action="store_true",
        help="run the suite for roots on servers of stores, too (tests/rigs/README.md)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip long cases unless --long is given, and put the tests into the order of `ordered`."""
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason=LONG_ONLY))
    items[:] = ordered(items)


UNITS: Final = {
    Path(__file__).parent / folder
    for folder in (
        "base",
        "metadata",
        "groups",
        "log",
        "node",
        "controller",
        "produce",
        "consume",
        "observe",
    )
}
"""Folders of unit tests, whose folders within have tests of tables."""


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests in an order in which all processors have something to do, and nobody waits at the
    end.

    All that share the Spark session are one piece of work, the longest, and begin first. What needs a
    processor all the time is spread evenly among what waits for most of its time, and so is what
    starts Spark for itself, the torture after the others: beside a session that begins, it would
    starve it. The unit tests, in short files, are last.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def take(is_taken: Callable[[Path], bool]) -> list[Path]:
        taken = [path for path in files if path not in placed and is_taken(path)]
        placed.update(taken)
        return taken

    placed: set[Path] = set()
    sharing = take(shares_session)
    sessions = sorted(take(lambda path: "integration" in path.parts), key=_seconds, reverse=True)
    torture = sorted(take(lambda path: "torture" in path.parts), key=_seconds, reverse=True)
    computing = sorted(take(_computes), key=_seconds, reverse=True)
    units = take(lambda path: path.parent in UNITS)
    waiting = take(lambda _: True)
    rest = _spread(waiting, computing, [*sessions, *torture])
    order = [*sharing, *rest, *units]
    return [item for path in order for item in files[path]]


def _computes(path: Path) -> bool:
    return not COMPUTING.isdisjoint(path.parts)


def _seconds(path: Path) -> int:
    return SECONDS.get(path.name, SECONDS_OF_OTHERS)


def _spread(*groups: list[Path]) -> list[Path]:
    """Return files of some groups, each group in its order and spread evenly by how long it takes."""
    places = []
    for number, group in enumerate(groups):
        ends = list(accumulate(map(_seconds, group)))
        for path, end in zip(group, ends, strict=True):
            places.append(((end - _seconds(path) / 2) / ends[-1], number, path))
    return [path for *_, path in sorted(places)]


@cache
def shares_session(file: Path) -> bool:
    """Return whether tests of a file use the one Spark session of tests/integration/conftest.py."""
    return "integration" in file.parts and bool(_TAKES_SESSION.search(file.read_text("utf-8")))


class OneSession(LoadFileScheduling):
    """Hands out whole files, and those that share the Spark session as if they were one: a session
    takes half a minute of a processor until it is warm, and each process would start its own."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SESSION if shares_session(self.config.rootpath / file) else file

    def _assign_work_unit(self, node: Any) -> None:
        """Give a worker its next file: the shortest, if it still runs a long one.

        A worker gets its next file before it ends the last tests of the one it runs, and nobody takes
        that from it. A minute of tests behind a file of many minutes would be what all wait for.
        """
        mine = self.assigned_work.get(node, {})
        pending = [Path(file) for file, tests in mine.items() if not all(tests.values())]
        if any(_seconds(file) >= LONG_SECONDS for file in pending):
            shortest = min(self.workqueue, key=lambda file: _seconds(Path(file)))
            self.workqueue.move_to_end(shortest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession | None:
    """Have files that share the session run in one process, unless another way was asked for."""
    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None

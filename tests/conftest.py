"""What holds for every test, and for every process that a test starts."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests import jvms

VARIABLE = "SPARK_SUBMIT_OPTS"
SESSION = "the files that share the Spark session"
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
    if jvms.QUICK not in given:
        os.environ[VARIABLE] = f"{jvms.QUICK} {given}".strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the cases marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip long cases unless --long is given, and put the tests into the order of `ordered`."""
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="only with --long: a minute or more"))
    items[:] = ordered(items)


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests in an order in which nobody waits at the end.

    All that share the Spark session are one piece of work, which begins as early as its first file;
    the other engines are the last of it, and open the tables of tests that have begun before. The
    torture lasts for minutes, so what needs one processor and no Spark, in short files, follows it;
    at the beginning, it would starve the Spark sessions beside it.
    """
    delta = [item for item in items if "tests/storage/delta/" in item.path.as_posix()]
    engines = [item for item in items if item.path.name == "test_other_engines.py"]
    sharing = [item for item in items if shares_session(item.path) and item not in engines]
    torture = [item for item in items if "torture" in item.path.parts]
    moved = {*delta, *sharing, *engines, *torture}
    rest = [item for item in items if item not in moved]
    rest = _put(rest, [*delta, *sharing, *engines], before="integration")
    return _put(rest, torture, before="search")


def _put(items: list[pytest.Item], moved: list[pytest.Item], *, before: str) -> list[pytest.Item]:
    """Return tests with others before those of a folder, or at the end."""
    at = next((at for at, item in enumerate(items) if before in item.path.parts), len(items))
    return [*items[:at], *moved, *items[at:]]


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession | None:
    """Have files that share the session run in one process, unless another way was asked for."""
    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None

"""In which order tests are run, and which of them by one process."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import SESSION, OneSession, ordered, shares_session

TESTS = Path(__file__).parents[1]
FILES = [
    "cli/test_cli_page.py",
    "integration/executors/test_local_cluster.py",
    "integration/test_other_engines.py",
    "integration/test_views.py",
    "power/test_crash_model.py",
    "search/test_small_scope.py",
    "storage/delta/test_kill.py",
    "torture/test_torture_run.py",
]


class Item:
    """A test of a file."""

    def __init__(self, file):
        self.path = TESTS / file


def places():
    items = ordered([Item(file) for file in FILES])
    return {item.path.relative_to(TESTS).as_posix(): at for at, item in enumerate(items)}


def test_every_test_is_kept_once():
    items = [Item(file) for file in FILES]

    assert sorted(map(id, ordered(items))) == sorted(map(id, items))


def test_other_engines_follow_the_tables_that_they_open_and_all_that_share_their_session():
    at = places()
    engines = at["integration/test_other_engines.py"]

    assert at["storage/delta/test_kill.py"] < at["integration/test_views.py"] < engines
    assert engines < at["integration/executors/test_local_cluster.py"]


def test_the_torture_has_what_needs_no_spark_behind_it():
    at = places()
    torture = at["torture/test_torture_run.py"]

    assert at["integration/executors/test_local_cluster.py"] < torture
    assert torture < at["search/test_small_scope.py"]


def test_files_that_share_the_session_are_handed_out_as_one():
    scheduler = OneSession.__new__(OneSession)  # it asks for the workers of a run otherwise
    scheduler.config = SimpleNamespace(rootpath=TESTS.parent)

    found = {file: scheduler._split_scope(f"tests/{file}::test_x[a::b]") for file in FILES}

    shared = {"integration/test_other_engines.py", "integration/test_views.py"}
    expected = {file: SESSION if file in shared else f"tests/{file}" for file in FILES}
    assert found == expected


def test_every_test_of_this_run_that_uses_the_session_is_known_to(request: pytest.FixtureRequest):
    using = {
        item.path
        for item in request.session.items
        if "spark" in getattr(item, "fixturenames", ()) and "integration" in item.path.parts
    }

    assert not [file for file in sorted(using) if not shares_session(file)]

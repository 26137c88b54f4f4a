"""In which order tests are run, and which of them by one process."""

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import SESSION, OneSession, ordered, shares_session

TESTS = Path(__file__).parents[1]
FILES = [
    "cli/test_cli_page.py",
    "contract/test_evidence.py",
    "integration/executors/test_local_cluster.py",
    "integration/test_other_engines.py",
    "integration/test_views.py",
    "power/test_crash_model.py",
    "search/test_small_scope.py",
    "storage/delta/test_kill.py",
    "storage/s3/test_s3_roots.py",
    "torture/test_torture_parts.py",
    "torture/test_torture_run.py",
    "unit/test_ids.py",
]


class Item:
    """A test of a file."""

    def __init__(self, file):
        self.path = TESTS / file


def places(files=FILES):
    items = ordered([Item(file) for file in files])
    return {item.path.relative_to(TESTS).as_posix(): at for at, item in enumerate(items)}


def test_every_test_is_kept_once():
    items = [Item(file) for file in FILES]

    assert sorted(map(id, ordered(items))) == sorted(map(id, items))


def test_the_tests_of_a_file_stay_together_and_in_their_order():
    items = [Item(file) for file in FILES for _ in range(3)]

    found = ordered(items)

    for at in range(0, len(found), 3):
        [file] = {item.path for item in found[at : at + 3]}
        assert found[at : at + 3] == [item for item in items if item.path == file]


def test_other_engines_follow_the_tables_that_they_open_and_all_that_share_their_session():
    at = places()
    engines = at["integration/test_other_engines.py"]

    assert at["storage/delta/test_kill.py"] < at["integration/test_views.py"] < engines
    assert engines < min(place for file, place in at.items() if place > 2)


def test_the_torture_follows_other_sessions_its_longest_part_first_and_has_short_files_behind_it():
    at = places()
    torture = at["torture/test_torture_run.py"]

    assert at["integration/executors/test_local_cluster.py"] < torture
    assert torture < at["torture/test_torture_parts.py"] < at["unit/test_ids.py"]
    assert at["unit/test_ids.py"] == len(FILES) - 1


def test_what_computes_goes_among_what_waits_and_the_longest_of_it_first():
    waiting = [f"cli/test_{number}.py" for number in range(12)]
    computing = [
        "conformance/test_vectors.py", "search/test_small_scope.py", "simulation/test_merged.py",
    ]  # fmt: skip

    at = places([*waiting, *computing])

    found = sorted(computing, key=at.get)
    assert found == [computing[1], computing[0], computing[2]]
    assert sorted(waiting, key=at.get) == waiting
    assert at[waiting[2]] < at[found[0]] < at[waiting[-3]]


def test_the_contracts_need_their_server_no_more_when_another_of_their_process_begins():
    """It lasts as long as its process, and the other begins by emptying the bucket of both."""
    at = places()

    assert at["contract/test_evidence.py"] < at["storage/s3/test_s3_roots.py"]


def test_files_that_share_the_session_are_handed_out_as_one():
    scheduler = OneSession.__new__(OneSession)  # it asks for the workers of a run otherwise
    scheduler.config = SimpleNamespace(rootpath=TESTS.parent)

    found = {file: scheduler._split_scope(f"tests/{file}::test_x[a::b]") for file in FILES}

    shared = {"integration/test_other_engines.py", "integration/test_views.py"}
    expected = {file: SESSION if file in shared else f"tests/{file}" for file in FILES}
    assert found == expected


@pytest.mark.parametrize(
    "runs, ended, next_file",
    [
        ("test_local_cluster.py", False, "test_ids.py"),
        (SESSION, False, "test_ids.py"),
        ("test_local_cluster.py", True, "test_torture_run.py"),
        ("test_ids.py", False, "test_torture_run.py"),
    ],
)
def test_behind_a_long_file_that_still_runs_stands_the_shortest(runs, ended, next_file):
    files = ["test_torture_run.py", "test_ids.py", "test_torture_quorum.py"]
    sent = []
    worker = type("Worker", (), {"send_runtest_some": staticmethod(sent.extend)})()
    scheduler = OneSession.__new__(OneSession)  # it asks for the workers of a run otherwise
    scheduler.workqueue = OrderedDict((file, {f"{file}::test": False}) for file in files)
    scheduler.assigned_work = {worker: {runs: {f"{runs}::test": ended}}}
    scheduler.registered_collections = {worker: [f"{file}::test" for file in files]}

    scheduler._assign_work_unit(worker)

    assert sent == [files.index(next_file)]


def test_every_test_of_this_run_that_uses_the_session_is_known_to(request: pytest.FixtureRequest):
    using = {
        item.path
        for item in request.session.items
        if "spark" in getattr(item, "fixturenames", ()) and "integration" in item.path.parts
    }

    assert not [file for file in sorted(using) if not shares_session(file)]

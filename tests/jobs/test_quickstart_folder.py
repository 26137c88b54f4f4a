"""Which folders a quickstart works in, and which it refuses, in a sentence."""

import json
from pathlib import Path

import pytest

from jobs.quickstart_run.flights import APPENDS_PER_HALF, appends_of
from jobs.quickstart_run.run_folder import GivenPlan, Plan, QuickstartError, RunFolder

DEFAULT = Plan(rows=1000, brokers=3, partitions=8)
NOTHING = GivenPlan(None, None, None)


@pytest.fixture
def take():
    folders = []

    def take_folder(path, wish=NOTHING):
        folders.append(RunFolder.take(str(path), wish, DEFAULT))
        return folders[-1]

    yield take_folder
    for folder in folders:
        folder.close()


def test_new_folder_is_made_with_what_was_asked_for_and_defaults(take, tmp_path):
    folder = take(tmp_path / "a" / "b", GivenPlan(20, None, 4))

    assert folder.plan == Plan(rows=20, brokers=3, partitions=4)
    assert not folder.is_continued
    assert json.loads((tmp_path / "a" / "b" / "quickstart.json").read_text())["rows"] == 20


def test_folder_that_was_begun_is_continued_with_its_own_plan(take, tmp_path):
    take(tmp_path, GivenPlan(20, None, 4)).close()

    folder = RunFolder.take(str(tmp_path), GivenPlan(20, None, None), DEFAULT)

    assert folder.plan == Plan(rows=20, brokers=3, partitions=4)
    assert folder.is_continued


def test_other_options_than_it_was_begun_with_are_refused(tmp_path):
    RunFolder.take(str(tmp_path), GivenPlan(20, None, None), DEFAULT).close()

    with pytest.raises(QuickstartError, match="begun with --rows 20, not 30: continue"):
        RunFolder.take(str(tmp_path), GivenPlan(30, None, None), DEFAULT)


@pytest.mark.parametrize("text", ["", "[]", '{"rows": 3}', '"text"'])
def test_plan_that_is_not_one_is_refused(tmp_path, text):
    (tmp_path / "quickstart.json").write_text(text)

    with pytest.raises(QuickstartError, match="is not a quickstart's"):
        RunFolder.take(str(tmp_path), NOTHING, DEFAULT)


def test_folder_in_which_another_run_works_is_refused(take, tmp_path):
    take(tmp_path)

    with pytest.raises(QuickstartError, match="another quickstart works in"):
        RunFolder.take(str(tmp_path), NOTHING, DEFAULT)


def test_a_run_with_three_voters_knows_which_of_their_roots_it_took_away(take, tmp_path):
    folder = take(tmp_path, GivenPlan(None, None, None, voters=3))
    assert folder.cluster_url == ",".join(f"{tmp_path}/metadata-{each}" for each in (1, 2, 3))
    assert folder.lost_metadata_root is None
    Path(folder.metadata_roots[1]).mkdir()

    folder.take_away(folder.metadata_roots[1])

    assert folder.lost_metadata_root == f"{tmp_path}/metadata-2"


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 9, 20_001])
def test_appends_are_all_rows_in_order_and_the_halves_have_as_many_appends(rows):
    appends = appends_of(rows)

    assert [row for append in appends for row in append] == list(range(rows))
    assert len(appends) == 2 * APPENDS_PER_HALF
    assert sum(len(append) for append in appends[:APPENDS_PER_HALF]) == rows // 2

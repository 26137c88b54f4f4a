"""The quickstart's command: what it refuses, in one sentence; and that its records are the same.

Its whole way is gone in test_quickstart_kill.py, and without a kill by .ci/run.
"""

import pytest

from jobs import quickstart

pytestmark = pytest.mark.integration


# fmt: off
BAD_OPTIONS = [
    pytest.param(["--rows", "0"],       "--rows: '0' is not allowed: give a whole number from 2 to 336776", id="no rows"),
    pytest.param(["--rows", "many"],    "--rows: 'many' is not allowed",                                    id="no number"),
    pytest.param(["--rows", "336777"],  "--rows: '336777' is not allowed",                                  id="more rows than there are"),
    pytest.param(["--brokers", "2"],    "--brokers: '2' is not allowed: give a whole number from 3",        id="too few brokers"),
    pytest.param(["--partitions", "0"], "--partitions: '0' is not allowed",                                 id="no partitions"),
    pytest.param(["--voters", "2"],     "--voters: '2' is not allowed: give 1, 3 or 5",                     id="no majority of an even number"),
    pytest.param(["--root", "s3://"],   "--root: 's3://' is not a root: give a folder, or a URL",           id="no bucket"),
    pytest.param(["--root", "folder"],  "--root: 'folder' is a folder: name it with --dir",                 id="root that is a folder"),
    pytest.param(["--row-count", "5"],  "unrecognized arguments: --row-count 5",                            id="unknown option"),
]
# fmt: on


@pytest.mark.parametrize("arguments,sentence", BAD_OPTIONS)
def test_bad_option_is_one_sentence_and_exit_code_1(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        quickstart.main(arguments)

    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_folder_of_something_else_is_one_sentence_and_exit_code_1(capsys, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")

    assert quickstart.main(["--dir", str(tmp_path)]) == 1

    said = capsys.readouterr().out.strip()
    assert "holds something else: name a new or an empty folder" in said
    assert len(said.splitlines()) == 1

"""The command line of a torture run: what it refuses, in a sentence."""

import pytest

from jobs.torture import main
from tests.torture.harness.folder import TortureError, TortureFolder


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "precious").touch()

    with pytest.raises(TortureError, match="holds something"):
        TortureFolder.begin(tmp_path)


@pytest.mark.parametrize(
    "option", [("--minutes", "0"), ("--minutes", "x"), ("--minutes", "nan"), ("--seed", "-1")]
)
def test_bad_options_are_refused_in_a_sentence(option, capsys):
    with pytest.raises(SystemExit) as end:
        main(list(option))

    assert end.value.code == 2
    assert "is not allowed: give" in capsys.readouterr().err

"""Each table that a test of this folder leaves behind is opened by delta-rs, too."""

import pytest

from tests.storage.tables import check_with_delta_rs


@pytest.fixture(autouse=True)
def delta_rs_agrees(tmp_path):
    """Check what a test leaves behind, once its faults are gone."""
    yield
    for folder in tmp_path.glob("**/_delta_log"):
        if folder.is_dir():
            check_with_delta_rs(str(folder.parent))

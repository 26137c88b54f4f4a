"""The README's tour is true: its Python blocks run as they stand, one after the other."""

import os
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)

pytestmark = pytest.mark.integration


def test_every_python_block_of_the_readme_runs(spark, tmp_path, monkeypatch, capsys):
    assert len(BLOCKS) == 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    for block in BLOCKS:
        exec(compile(block, README.name, "exec"), names)

    printed = capsys.readouterr().out
    assert "topic created by request" in printed
    assert "broker 1: caught up" in printed
    assert "If broker 2 died now" in printed
    assert {"grid.png", "timeline.png", "cluster.html"} <= set(os.listdir(tmp_path / "tour"))

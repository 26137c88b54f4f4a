"""The notebook runs from top to bottom in a kernel of its own, and shows what it promises."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.cluster.folders import quick_folder

CHECKOUT = Path(__file__).parents[2]
NOTEBOOK = CHECKOUT / "jobs" / "notebooks" / "isr_history.ipynb"
SECONDS_MAX = 300
"""For a cell, its outputs and the kernel's start, on a busy machine; the whole takes less than 30 s
on an idle one."""

TOLD = ("probe failed", "is unfenced: ", "probed too seldom to say", "takes long")
"""The controller logs what it fences and unfences; and on a busy machine that it can't say yet, and for what it
waits."""


def executed(patch, folder):
    """Return the notebook after its run, with nothing of the user's: neither settings nor a history."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(name, str(folder / name.lower()))
    patch.setenv("TMPDIR", str(folder))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        notebook,
        timeout=SECONDS_MAX,
        startup_timeout=SECONDS_MAX,
        # What comes later than this after a cell's end is left out: 4 s by default.
        iopub_timeout=SECONDS_MAX,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    ).execute()
    return notebook


def shown(notebook, kind: str) -> list[str]:
    return [
        output["data"][kind]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if kind in output.get("data", {})
    ]


@pytest.mark.long
def test_pictures_tables_and_forecasts_are_shown_inline_and_no_cell_complains(monkeypatch):
    with quick_folder() as folder:
        notebook = executed(monkeypatch, folder)

    pictures, pages = shown(notebook, "image/png"), shown(notebook, "text/html")
    assert len(pictures) == 3
    assert all(len(each) > 10_000 for each in pictures)
    assert sum("<table" in each and "dataframe" in each for each in pages) == 5
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", ())]
    text = "".join(each["text"] for each in outputs if each["output_type"] == "stream")
    assert "If broker 5 died now" in text
    assert "unclean election, offsets" in text
    assert "alerts-0" in text
    assert [each for each in outputs if each["output_type"] == "error"] == []
    said = (each["text"] for each in outputs if each.get("name") == "stderr")
    lines = [line for text in said for line in text.splitlines()]
    assert [line for line in lines if not any(each in line for each in TOLD)] == []


def test_the_notebook_is_kept_without_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))

    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)

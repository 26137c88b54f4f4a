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

TOLD = ("probe failed", "probed too seldom to say", "takes long")
"""The controller logs what it fences; and on a busy machine that it can't say yet, and for what it
waits."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, quick_folder() as folder:
        # Nothing of the user's: neither settings nor a history of IPython's.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        patch.setenv("TMPDIR", str(folder))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        client = NotebookClient(
            notebook,
            timeout=SECONDS_MAX,
            startup_timeout=SECONDS_MAX,
            # What comes later than this after a cell's end is left out: 4 s by default.
            iopub_timeout=SECONDS_MAX,
            kernel_name="python3",
            resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        )
        client.execute()
        yield notebook


def shown(notebook, kind: str) -> list[str]:
    return [
        output["data"][kind]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if kind in output.get("data", {})
    ]


def printed(notebook) -> str:
    outputs = (each for cell in notebook.cells for each in cell.get("outputs", ()))
    return "".join(each["text"] for each in outputs if each["output_type"] == "stream")


@pytest.mark.long
def test_pictures_and_tables_are_shown_inline(executed):
    pictures, pages = shown(executed, "image/png"), shown(executed, "text/html")

    assert len(pictures) == 3
    assert all(len(each) > 10_000 for each in pictures)
    assert sum("<table" in each and "dataframe" in each for each in pages) == 5


@pytest.mark.long
def test_what_happened_and_what_would_have_is_told(executed):
    text = printed(executed)

    assert "If broker 5 died now" in text
    assert "unclean election, offsets" in text
    assert "alerts-0" in text


@pytest.mark.long
def test_no_cell_complains(executed):
    outputs = [each for cell in executed.cells for each in cell.get("outputs", ())]
    errors = [each for each in outputs if each["output_type"] == "error"]
    complaints = [
        line
        for each in outputs
        if each.get("name") == "stderr"
        for line in each["text"].splitlines()
        if not any(each in line for each in TOLD)
    ]

    assert errors == []
    assert complaints == []


def test_the_notebook_is_kept_without_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))

    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)

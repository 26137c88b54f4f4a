"""The table of invariants names the modules of `fsck` that find a breach of each, and they name it."""

import ast
import re
from pathlib import Path

import pytest

FSCK = Path(__file__).parents[2] / "kafka_on_spark" / "fsck"
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
INVARIANT = re.compile(r"[IQ][0-9]+")


def reported(tree: ast.Module) -> set[str]:
    """Return the invariants that a module reports: its texts that are an id and nothing else."""
    texts = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
    return {each for each in texts if isinstance(each, str) and INVARIANT.fullmatch(each)}


def said(tree: ast.Module) -> set[str]:
    """Return the invariants at the beginning of a module's docstring, "I3, I5 to I7: ..."."""
    found = set()
    ids = re.match(r"([IQ][0-9]+(, | to )?)+:", ast.get_docstring(tree) or "")
    for each in ids[0].split(", ") if ids else ():
        first, *_, last = [*INVARIANT.findall(each)] * 2
        found |= {f"{first[0]}{n}" for n in range(int(first[1:]), int(last[1:]) + 1)}
    return found


MODULES = {path.name: ast.parse(path.read_text()) for path in sorted(FSCK.glob("*.py"))}
REPORTED = {name: reported(tree) for name, tree in MODULES.items()}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_fsck_begins_with_the_invariants_that_it_reports(name):
    assert said(MODULES[name]) == REPORTED[name]


def test_the_table_of_invariants_names_the_modules_that_report_each():
    rows = re.findall(r"^\| ([IQ][0-9]+) .*\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)

    table = {id: set(re.findall(r"`fsck/(\w+\.py)`", checked)) for id, checked in rows}

    assert len(table) > 30
    assert table == {id: {name for name, ids in REPORTED.items() if id in ids} for id in table}
    assert set().union(*REPORTED.values()) <= table.keys()

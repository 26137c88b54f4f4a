"""`.ci/uncalled.py` finds what only tests name, and what only that names."""

import ast
import runpy

from tests.pages import ROOT

SCRIPT = runpy.run_path(str(ROOT / ".ci" / "uncalled.py"))
MODULE = """
def called(): return Used().read
def dead(): return only_by_dead(), dead()
def only_by_dead(): pass
def allowed(): pass
class Used:
    def read(self): pass
    def write(self): return self.write()
    def __len__(self): pass
class Unused:
    def read(self): pass
PLACES = {"a": "called"}
"""


def test_what_nothing_that_runs_names_is_found():
    found, words = SCRIPT["definitions"](ast.parse(MODULE), ROOT / "module.py")

    dead = SCRIPT["uncalled"](found, words, {"allowed"})

    assert [each.full_name for each in dead] == ["dead", "only_by_dead", "Used.write", "Unused"]
    assert dead[0].place == "module.py:3"

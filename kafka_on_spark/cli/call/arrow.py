"""Has pyarrow do without pandas in a process of the command line.

pyarrow asks once whether pandas is there, when it first makes an array of a Python list, and
imports it if it is, which takes a good part of a call's processor time. No verb has values of
pandas. The library does not do this, since its users have some.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


def do_without_pandas() -> None:
    """Have pyarrow ask while the answer is no. Whoever needs pandas later can import it, and
    `to_pandas` finds it as well."""
    if "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)


class _WithoutPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not asked for", name=fullname)
        return None

"""What holds for every test, and for every process that a test starts."""

import os

import pytest

from tests import jvms

VARIABLE = "SPARK_SUBMIT_OPTS"


def pytest_configure() -> None:
    """Have Spark's own launcher, which reads this, start quick drivers; what is set already wins."""
    given = os.environ.get(VARIABLE, "")
    if jvms.QUICK not in given:
        os.environ[VARIABLE] = f"{jvms.QUICK} {given}".strip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the torture run beside what needs one processor and no Spark: last, it would run alone,
    and first, it would starve the Spark sessions beside it."""
    torture = [item for item in items if "torture" in item.path.parts]
    others = [item for item in items if "torture" not in item.path.parts]
    single = (at for at, item in enumerate(others) if "simulation" in item.path.parts)
    at = next(single, len(others))
    items[:] = [*others[:at], *torture, *others[at:]]

"""What holds for every test, and for every process that a test starts."""

import os

from tests import jvms

VARIABLE = "SPARK_SUBMIT_OPTS"


def pytest_configure() -> None:
    """Have Spark's own launcher, which reads this, start quick drivers; what is set already wins."""
    given = os.environ.get(VARIABLE, "")
    if jvms.QUICK not in given:
        os.environ[VARIABLE] = f"{jvms.QUICK} {given}".strip()

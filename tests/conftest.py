"""What holds for every test, and for every process that a test starts."""

import os

# Compiled twice over, a JVM's code gets fast in minutes; a test's JVM lives for seconds, and half
# of its time went into that. Spark's launcher reads this for each driver; what is set already wins.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_configure() -> None:
    """Have drivers that tests start, in whatever process, compile once and collect in one thread."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)

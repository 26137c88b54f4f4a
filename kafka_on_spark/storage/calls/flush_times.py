"""How long this process's flushes of local disks took. Those of executors are their own."""

from typing import Final

from kafka_on_spark.service.describe.counts import Counts
from kafka_on_spark.storage.calls.clock import SystemClock

FLUSHES: Final = Counts(SystemClock().precise_ms)
"""Of all clusters that this process has opened: a disk does not know for whom it flushes."""

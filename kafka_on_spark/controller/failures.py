"""What fails in one process and is tried again: it is logged once when it begins, and once when it
is over, however often it fails meanwhile, and whatever words each try has for it."""

import logging
import threading
from collections.abc import Mapping
from typing import Final

from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)

TOLD_MAX: Final = 20
"""What begins or ends together is logged one by one up to so many; the rest is counted."""


class Failures:
    """What fails now, by what was tried ("orders-1 on broker 3: merge"). Threads may share it.

    What is not tried any more, since its topic is gone, is not over: it is never named again.
    """

    def __init__(self, node: Node) -> None:
        self._clock = node.clock
        self._lock = threading.Lock()
        self._since_ms: dict[str, int] = {}

    def note(self, tried: Mapping[str, str], level: int = logging.WARNING) -> None:
        """Note what was tried: why it has failed, or "" if it has not."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            begun = {each: why for each, why in tried.items() if why and each not in self._since_ms}
            self._since_ms |= dict.fromkeys(begun, now_ms)
            over = {
                each: f"is over after {(now_ms - self._since_ms.pop(each)) / 1000:.1f} s"
                for each, why in tried.items()
                if not why and each in self._since_ms
            }
        for found, how in ((begun, level), (over, min(level, logging.INFO))):
            for each in list(found)[:TOLD_MAX]:
                log.log(how, "%s: %s", each, found[each])
            if len(found) > TOLD_MAX:
                log.log(how, "and %d more like that", len(found) - TOLD_MAX)

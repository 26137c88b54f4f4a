"""A process that dies at one of its commits to the metadata log, and does nothing afterwards."""

from kafka_on_spark import Cluster
from kafka_on_spark.node.node import hint_roots


class KilledError(BaseException):
    """The process is dead. No error that anybody handles."""


class MortalLog:
    """A metadata log of a process that dies at its `at`-th commit: before it, or just after."""

    def __init__(self, log, at: int, *, is_after: bool) -> None:
        self._log = log
        self._at = at
        self._is_after = is_after
        self.commits = 0
        self.is_dead = False

    def append(self, records, stamp, *, expected_offset):
        if self.is_dead:
            raise KilledError
        self.commits += 1
        self.is_dead = self.commits == self._at
        if self.is_dead and not self._is_after:
            raise KilledError
        batch = self._log.append(records, stamp, expected_offset=expected_offset)
        if self.is_dead:
            raise KilledError
        return batch

    def __getattr__(self, name):
        return getattr(self._log, name)


def make_mortal(cluster: Cluster, at: int, *, is_after: bool) -> MortalLog:
    """Have a cluster's process die at its `at`-th commit from now on."""
    log = MortalLog(cluster._metadata.log, at, is_after=is_after)
    cluster._node.part(hint_roots)  # of the log as it is
    cluster._metadata.log = log
    return log

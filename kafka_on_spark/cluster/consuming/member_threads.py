"""The two threads of a group's member: one beats, one looks at the others."""

import logging
import threading
from collections.abc import Callable

from kafka_on_spark.errors import ClusterClosedError, KafkaOnSparkError
from kafka_on_spark.service.consume.members.witness import Witness
from kafka_on_spark.spark.wiring.accounts import CONSUME, charged
from kafka_on_spark.storage.calls.daemon_threads import no_thread_error

log = logging.getLogger(__name__)


class MemberThreads:
    """Daemon threads that have a witness beat and look, turn by turn, until they are ended.

    Raises:
        KafkaStorageError: The process can't start a thread.
    """

    def __init__(self, witness: Witness) -> None:
        self._ended = threading.Event()
        for name, work in (("beat", witness.beat), ("look", witness.look)):
            thread = threading.Thread(
                target=_repeat,
                args=(charged(work, CONSUME), witness, self._ended),
                name=f"member_{name}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:
                self.end()
                raise no_thread_error() from error

    def end(self) -> None:
        """Have them end after what they are at."""
        self._ended.set()


def _repeat(work: Callable[[], None], witness: Witness, ended: threading.Event) -> None:
    while not ended.wait(witness.turn_ms / 1000):
        try:
            work()
        except ClusterClosedError:
            return  # nobody beats for a cluster that this process has closed
        except KafkaOnSparkError as error:
            log.warning("a member's look at its group has failed: %s", error)
        except Exception:
            log.exception("a member's turn has failed")

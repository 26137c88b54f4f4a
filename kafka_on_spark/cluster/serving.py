"""A cluster that one process serves for ever: opened, as soon as it can be, and kept going.

Apart from `Cluster`, whose methods end: here threads go on until they are told to end, and a root
that is away is waited for.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafka_on_spark.cluster.figures import metrics_of
from kafka_on_spark.cluster.upkeep import Upkeep
from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.metadata.metadata_outage import is_failing
from kafka_on_spark.service.serve.looks import CONTROL, METADATA, Looks, Role
from kafka_on_spark.service.serve.serving import (
    COPY_MS_MAX,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    Serving,
)
from kafka_on_spark.service.serve.serving_metrics import is_cut_off, serving_metrics
from kafka_on_spark.spark.wiring import accounts
from kafka_on_spark.spark.wiring.accounts import charged
from kafka_on_spark.spark.wiring.services import Services, check_created
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.roots.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PASS_PART: Final = 0.6
"""Of the time that the end may take: for the loops to end by themselves. The rest is for resigning
in place of one that does not, and for closing."""


class ServedCluster:
    """The cluster at `metadata_root`, served by threads of this process; tasks run on `spark`.

    Attributes:
        looks: What it has looked at.
        ended: Set once the loops are to end, whoever says so.
    """

    def __init__(
        self, metadata_root: str, options: StorageOptions, spark: "SparkSession | None"
    ) -> None:
        self._root = metadata_root
        self._options = options
        self._spark = spark
        self._services: Services | None = None
        self._serving: Serving | None = None
        self._threads: list[threading.Thread] = []
        self._clock = SystemClock()
        self.looks = Looks(self._clock)
        self.ended = threading.Event()
        self._failure: str | None = None

    @property
    def failure(self) -> str | None:
        """Why it could not go on; None: it was told to end, or goes on."""
        if self._failure is None and self._serving is not None:
            return self._serving.failure
        return self._failure

    def begin(self) -> None:
        """Begin to serve, in threads."""
        self._start(lambda: self._keep(self._serve), "serve")

    def end(self, within_ms: int) -> bool:
        """Have the loops end, resign and close; return whether all of it was done in time.

        What is under way after that time is abandoned with the process, as if that was killed.
        """
        until_ms = self._clock.monotonic_ms() + within_ms
        self.looks.become(Role.ENDING)
        self.ended.set()
        is_quiet = self._join(self._threads, int(until_ms - (1 - PASS_PART) * within_ms))
        if not is_quiet:
            log.info("a pass or a round is abandoned: it does not end in time")
        self._start(lambda: self._leave(is_quiet=is_quiet), "leave")
        return self._join(self._threads, until_ms)

    def _leave(self, *, is_quiet: bool) -> None:
        try:
            if self._serving is not None and not is_quiet:
                self._serving.resign()
            if self._services is not None:
                self._services.close()
        except KafkaOnSparkError as error:
            log.info("the end is not a clean one, which costs a standby a lease: %s", error)

    def _join(self, threads: Sequence[threading.Thread], until_ms: int) -> bool:
        for each in tuple(threads):
            each.join(max(until_ms - self._clock.monotonic_ms(), 0) / 1000)
        return not any(each.is_alive() for each in threads)

    def _start(self, work: Callable[[], object], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self, loop: Callable[[], object]) -> None:
        """Run a loop. Without it the process would do half of its work, and nobody would see that:
        once it ends, by whatever, the process is to end."""
        try:
            loop()
        except KafkaOnSparkError as error:
            self._failure = str(error)
        except BaseException as error:
            self._failure = f"it has ended by an error of its own: {error!r}"
            log.exception("a loop has ended")
        finally:
            self.ended.set()

    def _serve(self) -> None:
        services = self._open()
        if services is None:
            return
        serving = Serving(
            services.metadata,
            services.clock,
            looks=self.looks,
            ending=self.ended,
            controller_id=services.controller_id,
            make_controller=lambda metadata, clock, after_pass: services.keeping.controller_loop(
                metadata=metadata, clock=clock, after_pass=after_pass
            ),
            run_round=charged(
                lambda: Upkeep(self._root, services).replicate(
                    None, False, None, copy_ms_max=COPY_MS_MAX
                ),
                accounts.REPLICATE,
            ),
            why_lost=self._why_lost,
            recorder=services.counts,
        )
        self._services, self._serving = services, serving
        self._start(lambda: self._keep(serving.replicate), "rounds")
        charged(serving.control, accounts.CONTROL)()

    def _open(self) -> Services | None:
        """Open the cluster; a root that does not answer is asked again, until it does or the
        process is to end.

        Raises:
            ClusterNotFoundError: There is no cluster.
            KafkaOnSparkError: It can't be opened, and waiting does not help.
        """
        for pause_ms in pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX):
            try:
                with self.looks.looking(METADATA):
                    services = Services.open(self._root, self._options, self._spark)
                    check_created(services, self._root)
                    return services
            except KafkaOnSparkError as error:
                if not is_failing(error):
                    raise
                if pause_ms == RETRY_MS_MIN:
                    log.warning("waits for the metadata root: %s", error)
            self.looks.move(CONTROL)
            if self.ended.wait(pause_ms / 1000):
                return None
        raise AssertionError("pauses have no end")

    def metrics(self) -> list[Metric]:
        """Return what is known by now, from memory; local disks are asked for their room."""
        seen, now_ms = self.looks.seen, self._clock.monotonic_ms()
        figures = list(serving_metrics(seen, now_ms))
        if self._services is not None:
            settings = self._services.metadata.image.settings()
            lease_ms = settings.integer("controller.lease.ms")
            figures += metrics_of(
                self._services,
                is_cut_off=is_cut_off(seen, now_ms, lease_ms),
                holds_lease=seen.holds_lease(now_ms),
            )
        return figures

    def _why_lost(self) -> str | None:
        if self._spark is None:
            return None
        from kafka_on_spark.spark.jvm import has_ended  # imports pyspark

        if has_ended(self._spark):
            return "the Spark session has ended: start this process again"
        return None

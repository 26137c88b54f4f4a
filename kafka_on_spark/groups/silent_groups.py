"""Fences members of groups of which nobody is left to do it: by whoever controls, in no hurry.

While one member lives, members look at each other. The controller looks at all of them, too, once
in minutes.
"""

import logging
from collections.abc import Callable
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import MemberId
from kafka_on_spark.base.process import Clock
from kafka_on_spark.groups.groups import offsets_kept
from kafka_on_spark.groups.heartbeats import GAPS_A_SESSION, Heard
from kafka_on_spark.groups.membership import fence
from kafka_on_spark.groups.witness import looked_at
from kafka_on_spark.metadata.group import ConsumerGroup
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata import Heartbeats
from kafka_on_spark.metadata.result import ControllerResult

log = logging.getLogger(__name__)

SILENCE_MS: Final = 600_000
"""For so long at least all members are silent before the controller fences them."""

Decide = Callable[[MetadataImage], ControllerResult[None]]
Submit = Callable[[Decide], None]


class SilentGroups:
    """What one controller has heard of groups' members."""

    def __init__(self, heartbeats: Heartbeats, clock: Clock) -> None:
        self._heartbeats = heartbeats
        self._clock = clock
        self._heard: dict[str, dict[MemberId, Heard]] = {}
        self._looked_at_ms: int | None = None

    def run(self, image: MetadataImage, submit: Submit) -> None:
        """Look at each group, if it is time to, and fence those of which all are silent.

        Raises: as `submit`.
        """
        now_ms = self._clock.monotonic_ms()
        session_ms = image.settings().integer("group.consumer.session.timeout.ms")
        silence_ms = max(session_ms, SILENCE_MS)
        pause_ms = silence_ms // (GAPS_A_SESSION + 1)
        if self._looked_at_ms is not None and now_ms - self._looked_at_ms < pause_ms:
            return
        self._looked_at_ms = now_ms
        groups = image.consumer_groups
        self._heard = {name: each for name, each in self._heard.items() if name in groups}
        for name, group in groups.items():
            try:
                self._look(name, group, silence_ms, submit)
            except KafkaStorageError as error:
                log.info("heartbeats of group %r can't be read: %s", name, error)

    def _look(self, name: str, group: ConsumerGroup, silence_ms: int, submit: Submit) -> None:
        heard = self._heard[name] = looked_at(
            self._heartbeats,
            self._clock,
            name,
            sorted(group.members),
            self._heard.get(name, {}),
            silence_ms,
        )
        if all(each.is_over(silence_ms) for each in heard.values()):
            silent = {member: each.silent_ms for member, each in heard.items()}
            now_ms = self._clock.now_ms()
            submit(
                lambda image: offsets_kept(
                    image, name, fence(image, name, silent, is_all_or_none=True), now_ms
                )
            )
            log.warning("fenced all %d members of group %r: none lives", len(silent), name)
            for member in silent:
                self._heartbeats.stop(name, member)

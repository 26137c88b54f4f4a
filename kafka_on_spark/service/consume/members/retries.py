"""When a member tries again what has failed, and when its user is told of it instead.

A metadata root that is away is waited for. So is the end of a silent member that has this static
member's place: it may be an earlier life of this consumer. Apart from the member, which does what
is due: what is here outlasts one try.
"""

import logging
from typing import Final

from kafka_on_spark.controller.groups.sharing import is_to_share
from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    FencedMemberEpochError,
    KafkaOnSparkError,
    RequestTimedOutError,
    StaleMemberEpochError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.ids import MemberId
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.consume.failing import RETRY_MS_MAX
from kafka_on_spark.service.consume.members.witness import Witness
from kafka_on_spark.service.metadata.metadata_outage import is_failing
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

SESSIONS_WAITED_MAX: Final = 2
"""A member waits for others for so many sessions: within one a member that was killed is silent,
and soon after those that died with it."""


class Retries:
    """What one member waits for, and since when; `instance_id`: of a static one. For one thread."""

    def __init__(
        self,
        metadata: MetadataService,
        witness: Witness,
        clock: Clock,
        *,
        group: str,
        instance_id: str | None,
    ) -> None:
        self._metadata = metadata
        self._witness = witness
        self._clock = clock
        self._group = group
        self._instance_id = instance_id
        self._at_ms = 0
        self._failing_since_ms: int | None = None
        self._is_awaiting = False
        self._waits_since_ms: int | None = None

    def left_ms(self, now_ms: int) -> int:
        """Return how long it is until something is tried; 0: it is time to."""
        return max(self._at_ms - now_ms, 0)

    def note_success(self, member_id: MemberId | None) -> None:
        """All that was due of a member was done, or waits for what others have."""
        self._failing_since_ms = None
        if not self._is_short(member_id):
            self._waits_since_ms = None
        elif self._waits_since_ms is None:
            self._waits_since_ms = self._clock.monotonic_ms()

    def _is_short(self, member_id: MemberId | None) -> bool:
        """Return whether others have a member's place, or partitions that it shall own, or have yet
        to say which these are; or may have been killed, with partitions that nobody reads."""
        image = self._metadata.image
        group = image.consumer_groups.get(self._group)
        me = None if group is None or member_id is None else group.members.get(member_id)
        if group is None or me is None:
            return self._is_awaiting
        if is_to_share(image, group) or not me.target <= me.owned:
            return True
        return len(group.members) > 1 and not self._witness.hears_others

    @property
    def is_waiting(self) -> bool:
        """Whether the member waits for what others have, and not for longer than it takes to fence
        them if they were killed."""
        since_ms, most_ms = self._waits_since_ms, SESSIONS_WAITED_MAX * self._witness.session_ms
        return since_ms is not None and self._clock.monotonic_ms() - since_ms < most_ms

    def note_joined(self) -> None:
        """The member has its place: nobody else holds it."""
        self._is_awaiting = False
        self._witness.forget_holder()

    def note_failure(self, error: KafkaOnSparkError) -> None:
        """Try again later, or raise what does not pass, or has lasted."""
        passes = (
            RequestTimedOutError,
            CommitOutcomeUnknownError,
            FencedMemberEpochError,
            StaleMemberEpochError,
        )
        if not (is_failing(error) or isinstance(error, passes)):
            raise error
        now_ms = self._clock.monotonic_ms()
        if self._failing_since_ms is None:
            log.warning("group %r: tries again: %s", self._group, error)
            self._failing_since_ms = now_ms
        timeout_ms = self._metadata.image.settings().integer("metadata.away.timeout.ms")
        if now_ms - self._failing_since_ms >= timeout_ms:
            self._failing_since_ms = None
            raise error
        self._at_ms = now_ms + RETRY_MS_MAX

    def await_holder(self, error: UnreleasedInstanceIdError) -> None:
        """Wait for the end of the member that has this static member's place, if it is silent: it
        may be a life of this consumer that was killed, and nobody else may be there to fence it.

        Raises:
            UnreleasedInstanceIdError: It lives.
        """
        # A commit that this process has seen since may have ended the member, and its group.
        group = self._metadata.image.consumer_groups.get(self._group)
        holder = None if group is None else group.with_instance(self._instance_id)
        self._is_awaiting = False
        if holder is None:
            return
        heard = self._witness.await_holder(holder.member_id)
        if heard.has_beaten:
            self._witness.forget_holder()
            raise error
        self._is_awaiting = True
        if not heard.is_over(self._witness.session_ms):
            self._at_ms = self._clock.monotonic_ms() + self._witness.turn_ms

"""Waves of copies: how long the fetches of a round copy before the round decides on what they saw.

Fetches run side by side, and a round decides once all of them have ended. One that copied for hours
would keep all other followers out of the ISR, and all high watermarks where they are. They have the
same time, not the same bytes: each copies as fast as its roots are, and none waits for a slow one.
Apart from `fetch_pace`, which remembers between rounds: once a fetch has spent what a throttle
grants it, that was its part of a wave. One that its time has cut before goes on as any other.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.ids import BrokerId, Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult
from kafka_on_spark.service.replicate.fetching.fetch_plan import fetcher_of, keys_with_work
from kafka_on_spark.service.replicate.fetching.fetch_refusals import refusals

FETCH_MS_MAX: Final = 5_000
"""For how long one fetch copies in a wave."""

WAVE_MS_MAX: Final = 8 * FETCH_MS_MAX
"""For how long all fetches of a wave copy together, unless they are so many that a commit of each
takes longer: a thousand large copies on a few cores would else take twenty minutes a wave."""

_Fetcher = tuple[PartitionKey, BrokerId | None]


class CopyWaves:
    """The waves of one round, of which the first that ends after `duration_ms` is the last.

    A copy ends where its leader's log ended when the round first saw it, and goes on from there
    while what has been appended since is at most half as much each time: appends may be as fast.

    Attributes:
        is_last: No wave follows the one that ended last: what is left is for the next round.
    """

    def __init__(self, clock: Clock, duration_ms: float = inf) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + duration_ms
        self.is_last = False
        self._planned_on: dict[PartitionKey, PartitionRegistration | None] = {}
        self._ends: dict[_Fetcher, Offset] = {}
        self._left_at_end: dict[_Fetcher, int] = {}
        self._first_left: dict[_Fetcher, int] = {}
        self._gaining: set[_Fetcher] = set()  # whose copies ended by time the last time, unjudged
        self._filled: list[PartitionKey] = []
        self._throttled: list[PartitionKey] = []

    @property
    def is_more_left(self) -> bool:
        """Whether a fetch of the last wave would copy more at once."""
        return bool(self._filled)

    def begin(
        self,
        image: MetadataImage,
        keys: Iterable[PartitionKey],
        orders: Sequence[FetchOrder],
    ) -> list[FetchOrder]:
        """Begin a wave of the partitions `keys`, planned on `image`; return its fetches, `orders`,
        with the time that each may take."""
        self._planned_on.update((key, image.partition(key)) for key in keys)
        copies = sum(self._may_take_its_time(order) for order in orders)
        share = min(FETCH_MS_MAX, WAVE_MS_MAX // max(1, copies))
        return [replace(order, copy_ms_max=share) for order in orders]

    def _may_take_its_time(self, order: FetchOrder) -> bool:
        """Return whether a fetch may copy until its time is over: the round has not seen yet how
        much there is, or the time of its last wave did not suffice.

        Others, which had come to their ends, are fetched again for what was appended meanwhile:
        hundreds of them would leave a large copy the time of one commit a wave. All that throttles
        grant is a second's.
        """
        if order.copy_bytes_max is not None or order.follower is None:
            return False
        fetcher = fetcher_of(order)
        return fetcher not in self._ends or fetcher in self._gaining

    def end(
        self, orders: Sequence[FetchOrder], results: Sequence[FetchResult]
    ) -> list[PartitionReport]:
        """End a wave with the results of `orders`, as they were given to `begin`; return the
        reports to decide by.

        A member of the ISR whose copy goes on does not lag: else a round that finds much to copy
        would take it out of the ISR, and the next wave would have brought it all. With the last
        wave it is judged as always, unless the round has brought half of what it lacked: its root
        may be slower than the appends for ever. So that each is judged by some wave, one look at
        the clock says which the last one is. A member whose throttle stops it is judged at once:
        more time would bring it nothing.
        """
        self.is_last = self._clock.monotonic_ms() >= self._until_ms
        self._filled, self._throttled = [], []
        return [self._ended(order, result) for order, result in zip(orders, results, strict=True)]

    def look(
        self, orders: Sequence[FetchOrder], results: Sequence[FetchResult]
    ) -> list[PartitionReport]:
        """Return the reports to decide by of fetches that were to copy nothing.

        They end no wave, and say nothing new of a copy that goes on: a member that its last wave
        left unjudged stays so.
        """
        return [
            _unjudged(order, result.report) if fetcher_of(order) in self._gaining else result.report
            for order, result in zip(orders, results, strict=True)
        ]

    def _ended(self, order: FetchOrder, result: FetchResult) -> PartitionReport:
        report, fetcher = result.report, fetcher_of(order)
        self._gaining.discard(fetcher)
        if refusals(result):
            return report
        left = sum(seen.missing_bytes for seen in report.followers)
        first_left = self._first_left.setdefault(fetcher, left + result.copied_bytes)
        if self._is_at_its_end(fetcher, report, left):
            del self._first_left[fetcher]  # what it lacks later is another copy
            return report
        if order.copy_bytes_max is not None and result.copied_bytes >= order.copy_bytes_max:
            self._throttled.append(order.key)
            return report
        if not result.copied_bytes:  # it would go on for ever
            return report
        self._filled.append(order.key)
        if self.is_last and 2 * left > first_left:
            return report
        self._gaining.add(fetcher)
        return _unjudged(order, report)

    def _is_at_its_end(self, fetcher: _Fetcher, report: PartitionReport, left: int) -> bool:
        """Return whether a copy has come to its end, and no later one is worth another wave.

        What was appended during a long copy is no lag: the next end is where the log ends now. A
        new leader's log may end below the old one's, and its appends would keep a round for ever.
        """
        now = report.leader.log_end_offset
        end = self._ends[fetcher] = min(now, self._ends.get(fetcher, now))
        if any(seen.log_end_offset < end for seen in report.followers):
            return False
        if not left or 2 * left > self._left_at_end.get(fetcher, inf):
            return True
        self._left_at_end[fetcher] = left
        self._ends[fetcher] = now
        return False

    def next_keys(
        self, image: MetadataImage, topic_ids: Collection[TopicId] | None
    ) -> list[PartitionKey]:
        """Return the partitions of the next wave: those that are not copied yet, and of some
        topics, or of all, those with work that have changed since this round fetched them."""
        changed = (
            key
            for key in keys_with_work(image, topic_ids)
            if image.partition(key) != self._planned_on.get(key)
        )
        return list(dict.fromkeys((*self._filled, *self._throttled, *changed)))


def _unjudged(order: FetchOrder, report: PartitionReport) -> PartitionReport:
    """Return a report by which no member of the ISR lags."""
    followers = (
        replace(seen, missing_since_ms=None, missing_bytes=0)
        if seen.broker_id in order.partition.isr
        else seen
        for seen in report.followers
    )
    return replace(report, followers=tuple(followers))

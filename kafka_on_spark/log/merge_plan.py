"""Which neighbours of a log are merged into one file next: decided from headers and settings.

Neighbours of one kind are a run: one file can't hold what another leadership appended, or what
retention drops at another time. A run is closed once the log goes on with another kind: or a log of
many leaderships would keep 31 files of each tier of each. `base/merge_tiers.py` says the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.base.merge_tiers import MergeBounds, merges_of_lowest_tier
from kafka_on_spark.log.batch import LogPart, Segment

RECORDS_MAX: Final = 2**24
"""Records of a merged segment at most: a reader must be able to hold the file's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules(MergeBounds):
    """What may be merged.

    Attributes:
        stable_offset: The last stable offset: only what lies below it is the same in all replicas.
        span_ms: A merged segment has batches of one span of append times, so that retention by age
            can drop it as a whole.
        lag_batches: So many of the newest batches are left: whoever appended them may still ask
            whether they stand.
        size_bytes_min: A merge writes the whole producer state anew.
        left_out: Files that can't be read, or are too large once uncompressed, which only reading
            them tells. They are left as if they were full: a merge that can't be done would else be
            the first that is due for ever, and hide all others.
    """

    stable_offset: Offset
    span_ms: int
    lag_batches: int
    records_max: int = RECORDS_MAX
    left_out: frozenset[Segment] = frozenset()

    def leaves(self, part: LogPart) -> bool:
        is_stable = part.end_offset <= self.stable_offset
        return not is_stable or self.is_full(part) or not self.left_out.isdisjoint(part.segments)


def merges_due(batches: Sequence[LogPart], rules: MergeRules) -> list[tuple[LogPart, ...]]:
    """Return neighbours that are each to become one segment, as `merges_of_lowest_tier` says."""
    return merges_of_lowest_tier(_runs(batches, rules), rules)


def _runs(
    batches: Sequence[LogPart], rules: MergeRules
) -> Iterator[tuple[Sequence[LogPart], bool]]:
    """Yield neighbours that may come into one segment by what they are, and whether their run is
    closed: no more will join them."""
    last = max(0, len(batches) - rules.lag_batches)
    kinds = list(_kinds(batches, rules))
    open_kinds = {*kinds[last:], *kinds[-1:]}
    end = 0
    for kind, group in groupby(
        None if rules.leaves(part) else kind
        for part, kind in zip(batches[:last], kinds, strict=False)
    ):
        start, end = end, end + sum(1 for _ in group)
        if kind is not None:
            yield batches[start:end], kind not in open_kinds


_Kind = tuple[int, bool, int]


def _kinds(batches: Iterable[LogPart], rules: MergeRules) -> Iterator[_Kind]:
    """Yield the kind of each batch of a log, in order.

    An append time before that of an earlier batch is a wrong clock's, and counts as the earlier
    one's, as it does for retention: where two appenders take turns, and one has such a clock, no
    two neighbours would else be of one span.
    """
    appended_ms = 0
    for part in batches:
        appended_ms = max(appended_ms, part.appended_at_ms)
        yield _kind_of(part, rules, appended_ms)


def _kind_of(part: LogPart, rules: MergeRules, appended_ms: int) -> _Kind:
    """Return what neighbours in one segment must share. `appended_ms`: the latest append time up to
    the part."""
    return part.leader_epoch, part.has_append_time, appended_ms // rules.span_ms

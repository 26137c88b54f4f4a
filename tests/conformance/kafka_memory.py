"""What Kafka's leader would remember of its followers, to tell where a vector leaves our ground.

Not a part of what is tested: two rules of Kafka's rest on the times of fetches, which nobody
here remembers (lag is measured by append times, and the high watermark waits for the
ISR alone). This says when a vector's answer rests on them. Where a vector states these times
itself, the adapters check that they are the same. Source: Replica and Partition.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class FetchTimes:
    """One follower's fetches, as Kafka's `Replica` keeps them."""

    log_end_offset: int = -1
    last_caught_up_ms: int = 0
    last_fetch_leader_end: int = 0
    last_fetch_ms: int = 0

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def reset(self, leader_end: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """Note that a leadership began."""
        self.last_caught_up_ms = now_ms if is_in_sync else 0
        if is_new_leader:
            self.log_end_offset, self.last_fetch_leader_end, self.last_fetch_ms = -1, -1, 0
        else:
            self.last_fetch_leader_end = leader_end
            self.last_fetch_ms = now_ms if is_in_sync else 0

    def lags_since_ms(self, leader_end: int) -> int | None:
        """Return since when it counts as behind; None if it is at the leader's end."""
        return None if self.log_end_offset == leader_end else self.last_caught_up_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        """Return whether Kafka would take it for in sync."""
        since_ms = self.lags_since_ms(leader_end)
        return since_ms is None or now_ms - since_ms <= lag_ms_max

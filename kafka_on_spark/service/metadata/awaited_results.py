"""Holds the results of the admin requests that a process waits for.

Apart from the image, which keeps open requests, and no results.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord, MetadataBatch


class AwaitedResults:
    """Results by request, None while there is none. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_request: dict[str, AdminResultRecord | None] = {}

    @contextmanager
    def watching(
        self, record: AdminRequestRecord
    ) -> Iterator[Callable[[], AdminResultRecord | None]]:
        """Yield a function that returns the result of a request, once `record_all` had it."""
        with self._lock:
            self._by_request[record.request] = None
        try:
            yield lambda: self._by_request[record.request]
        finally:
            with self._lock:
                del self._by_request[record.request]

    def record_all(self, batches: Sequence[MetadataBatch]) -> None:
        """Record the results in batches that were replayed, of requests that are watched."""
        if not self._by_request:
            return
        results = [
            record
            for batch in batches
            for record in batch.records
            if isinstance(record, AdminResultRecord)
        ]
        with self._lock:
            for each in results:
                if each.request in self._by_request:
                    self._by_request[each.request] = each

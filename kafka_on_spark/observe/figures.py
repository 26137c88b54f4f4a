"""All figures that a process has of its cluster: of the metadata and its voters, of upkeep, of its
own work, and of the room on its disks."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller.lease import is_held_by
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.opening import metadata_log_of
from kafka_on_spark.node.services import Services
from kafka_on_spark.observe.log_descriptions import LogDescription
from kafka_on_spark.observe.metric import Metric
from kafka_on_spark.observe.state_metrics import (
    cut_off_metrics,
    quorum_metrics,
    state_metrics,
    upkeep_metrics,
)
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.local_changes import FLUSHES
from kafka_on_spark.store.requests import requests_sent
from kafka_on_spark.store.roots import is_local

ROOM_S: Final = 0.2
"""A disk that says nothing for so long is left out."""


def metrics_of(
    services: Services,
    logs: Sequence[LogDescription] = (),
    *,
    is_cut_off: bool = False,
) -> list[Metric]:
    """Return the figures, with those of `logs`. Nothing is read for it but the room on local disks:
    the image is the newest that this process knows. `is_cut_off`: that is too old."""
    image = services.metadata.image
    now_ms = services.clock.now_ms()
    services.counts.forget_gone(image)
    is_controller = is_held_by(image, services.controller_id)
    return [
        *(cut_off_metrics() if is_cut_off else state_metrics(image, is_controller=is_controller)),
        *(() if is_cut_off else [_time_ahead(image, now_ms)]),
        *(() if is_cut_off else _of_quorum(services, is_controller=is_controller)),
        *upkeep_metrics(logs, services.keeping.totals),
        *services.counts.metrics(),
        *FLUSHES.metrics(),
        *_of_roots(services),
        *_requests(),
    ]


def _requests() -> Iterator[Metric]:
    for (operation, kind), count in requests_sent().items():
        labels = {"operation": operation, "kind": kind}
        yield Metric(type="Ledger", name="requests", labels=labels, value=count)


def _time_ahead(image: MetadataImage, now_ms: int) -> Metric:
    ahead_ms = max(image.newest_ms() - now_ms, 0)
    return Metric(type="KafkaController", name="TimeAheadMs", value=ahead_ms)


def _of_quorum(services: Services, *, is_controller: bool) -> Iterator[Metric]:
    quorum = metadata_log_of(services.metadata).last_seen()
    if quorum is not None:
        yield from quorum_metrics(quorum, is_controller=is_controller)


def _of_roots(services: Services) -> Iterator[Metric]:
    """Yield the room that this host has on the roots that are folders; a store has no bounds."""
    brokers = services.metadata.image.brokers.values()
    roots = [*metadata_log_of(services.metadata).roots(), *(broker.root for broker in brokers)]
    for root in dict.fromkeys(filter(is_local, roots)):
        try:
            found = within(root, partial(os.statvfs, root), ROOM_S)
        except (KafkaOnSparkError, OSError):
            continue
        free, labels = found.f_bavail * found.f_frsize, {"root": root}
        yield Metric(type="Root", name="free-bytes", labels=labels, value=free)
        if found.f_files:  # some file systems have as many as fit
            yield Metric(type="Root", name="free-inodes", labels=labels, value=found.f_favail)

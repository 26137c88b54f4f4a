"""What the disks of brokers have left, for those that are folders of this machine."""

import shutil
from functools import partial
from typing import Any, Final

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.calls.deadlines import within
from kafka_on_spark.storage.roots.roots import is_local

THREADS: Final = 8
LOOK_S: Final = 2.0
"""A disk that says nothing for so long is shown as one that does not answer."""

View = dict[str, Any]


def disks_of(image: MetadataImage) -> dict[BrokerId, View]:
    """Return the room of each broker's disk, or why it can't be told; stores have no bounds."""
    roots = {each: broker.root for each, broker in image.brokers.items() if is_local(broker.root)}
    with DaemonThreads(THREADS, "disks") as threads:
        return dict(zip(roots, threads.map(_disk, roots.values()), strict=True))


def _disk(root: str) -> View:
    try:
        usage = within(root, partial(shutil.disk_usage, root), LOOK_S)
    except KafkaOnSparkError as error:
        return {"problem": str(error)}
    except OSError as error:
        return {"problem": f"its root can't be read: {error.strerror}"}
    return {"total": usage.total, "free": usage.free}

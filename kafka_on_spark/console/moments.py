"""The images of past moments that pages show: "as of" for a whole page."""

import threading
from collections import OrderedDict
from typing import Final

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.metadata.metadata_roles import MetadataLogReader

KEPT_MAX: Final = 16
"""Images share what is equal in them; who drags through the past goes back and forth."""


class Moments:
    """Images by metadata offset. Threads may share it."""

    def __init__(self, metadata: MetadataLogReader) -> None:
        self._metadata = metadata
        self._lock = threading.Lock()
        self._images: OrderedDict[int, MetadataImage] = OrderedDict()

    def image(self, offset: int | None) -> MetadataImage:
        """Return the image at a metadata offset, exclusive; None: the newest that is known.

        An offset in the middle of a decision leaves the decision out.

        Raises:
            InvalidRequestError: The log has no such offset, or the cluster was not there yet.
        """
        now = self._metadata.image
        if offset is None or offset == now.offset:
            return now
        if not 0 <= offset <= now.offset:
            raise InvalidRequestError(
                f"can't go to metadata offset {offset}: the log has offsets 0 to {now.offset}"
            )
        with self._lock:
            image = self._images.get(offset)
            if image is None:
                older = max((each for each in self._images if each < offset), default=None)
                start = None if older is None else self._images[older]
                image = self._metadata.image_at(Offset(offset), start)
                self._images[offset] = image
                if len(self._images) > KEPT_MAX:
                    self._images.popitem(last=False)
            self._images.move_to_end(offset)
        if image.cluster_id is None:
            raise InvalidRequestError(
                f"can't go to metadata offset {offset}: the cluster was not made yet"
            )
        return image

"""Commits of decisions to an image, without a store."""

from kafka_on_spark.metadata.records import MetadataBatch, Stamp


def committed(image, records, *, time_ms=1):
    """Return the image after a commit of `records`, or the same image if there are none."""
    if not records:
        return image
    stamp = Stamp(time_ms=time_ms)
    batch = MetadataBatch(base_offset=image.offset, stamp=stamp, records=tuple(records))
    return image.replay(batch)


def replay(image, result):
    return committed(image, result.records)


class Metadata:
    def __init__(self, image):
        self.image = image
        self.commits = 0
        self.before_commit = lambda: None
        self.error = None

    def catch_up(self):
        return self.image

    def submit(self, decide, *, timeout_ms):
        self.before_commit()
        if self.error is not None:
            raise self.error
        result = decide(self.image)
        if result.records:
            self.commits += 1
            self.image = replay(self.image, result)
        return result.response

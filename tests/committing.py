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
    """Return the image after the commit of a decision."""
    return committed(image, result.records)

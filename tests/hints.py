"""Metadata roots for tests of hints: a cluster's voters are where a test says."""

from kafka_on_spark.metadata.cluster_roots import HintRoots
from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.storage_options import StorageOptions


def hint_roots(*roots):
    """Return the roots of a cluster whose voters stay where they are."""
    return HintRoots(lambda: [str(each) for each in roots], StorageOptions())


def make_roots(*roots):
    """Make metadata roots that can be told from empty mount points; return them."""
    for each in roots:
        each.mkdir(exist_ok=True)
        (each / META_PROPERTIES).touch()
    return roots

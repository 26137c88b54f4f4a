"""Several processes create a cluster at the same roots at once: one cluster comes of it."""

import pytest

from kafka_on_spark.storage.metadata import metadata_creation
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log, create_voter
from kafka_on_spark.storage.roots.root_lists import cluster_url
from kafka_on_spark.storage.roots.roots import StorageOptions

OPTIONS = StorageOptions()


@pytest.mark.parametrize("of_the_other", [1, 2, 3])
@pytest.mark.parametrize("is_turned", [False, True], ids=["in one order", "in another order"])
def test_who_is_slower_goes_on_with_what_the_other_has_named(
    tmp_path, monkeypatch, of_the_other, is_turned
):
    """The other names the first roots just before this process does, and its list may be turned."""
    roots = [tmp_path / name for name in ("m1", "m2", "m3")]
    others = [*reversed(roots)] if is_turned else roots
    names = iter(sorted(map(str, roots))[:of_the_other])

    def raced(root, options, cluster_id, *, node_id, **given):
        if next(names, None) is not None:
            other_id = others.index(tmp_path / root.rpartition("/")[2]) + 1
            create_voter(root, options, "other", node_id=other_id, **given)
        return create_voter(root, options, cluster_id, node_id=node_id, **given)

    monkeypatch.setattr(metadata_creation, "create_voter", raced)

    created = create_metadata_log(cluster_url(roots), OPTIONS, "mine")

    assert created.identity.cluster_id == "other"
    assert sorted(each.node_id for each in created.tables.voters.keys) == [1, 2, 3]
    assert created.read(from_offset=0)

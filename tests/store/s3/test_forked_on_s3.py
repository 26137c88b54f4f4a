"""A copy of a cluster on S3 becomes a cluster of its own."""

import pytest

from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.folders import quick_folder
from tests.cluster.quorum import forks
from tests.cluster.quorum.forks import (
    check_each_kill,
    check_forked,
    copied_under_load,
    later_brokers,
)
from tests.store.s3.faulty_s3 import BUCKET, faulty_s3


@pytest.mark.long
def test_a_fork_on_s3_that_is_killed_at_a_write_is_refused_until_it_is_called_again(
    monkeypatch,
):
    monkeypatch.setattr(forks.forking, "check_conditional_puts", lambda root, options: None)
    with faulty_s3() as store, quick_folder() as folder:
        replica_store.cache_clear()
        check_each_kill(later_brokers(folder), f"s3://{BUCKET}", 1, 1, store.options())


@pytest.mark.long
def test_a_copy_on_s3_that_was_made_under_load_has_all_that_was_acknowledged_before():
    with faulty_s3() as store:
        replica_store.cache_clear()
        options = store.options(max_retries="3")

        def copy_objects(source, target):
            files = RootFiles(source, StorageOptions(options))
            for name, content in store.objects(source).items():
                files.write(f"{target}/{name}", content)

        prod, trial = (f"s3://{BUCKET}/{each}" for each in ("prod", "trial"))
        before = copied_under_load(prod, trial, copy_objects, options)
        check_forked(trial, before, options)

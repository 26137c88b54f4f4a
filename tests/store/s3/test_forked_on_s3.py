"""A copy of a cluster on S3 becomes a cluster of its own."""

from functools import partial
from itertools import count

import pytest

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.controller import fork as forking
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.quorum.forks import BROKERS, check_forked, copied_under_load
from tests.store.s3.faulty_s3 import BUCKET, faulty_s3


def copy_objects(store, source, target):
    files = RootFiles(source, StorageOptions(store.options()))
    for name, content in store.objects(source).items():
        files.write(f"{target}/{name}", content)


def die_after(store, puts):
    """Have the store deny all that comes after so many puts, as if the process had died there."""

    def put(number):
        if number == puts:
            store.key_id = "nobody"
        else:
            store.before_put = lambda: put(number + 1)

    store.before_put = lambda: put(1)


@pytest.mark.long
def test_a_copy_on_s3_that_was_made_under_load_has_all_that_was_acknowledged_before():
    with faulty_s3() as store:
        replica_store.cache_clear()
        options = store.options(max_retries="3")
        prod, trial = (f"s3://{BUCKET}/{each}" for each in ("prod", "trial"))
        before = copied_under_load(prod, trial, partial(copy_objects, store), options)
        check_forked(trial, before, options)


@pytest.mark.long
def test_a_fork_on_s3_that_died_after_any_put_goes_on_by_the_next_call(monkeypatch):
    monkeypatch.setattr(forking, "check_conditional_puts", lambda root, options: None)
    with faulty_s3() as store:
        replica_store.cache_clear()
        options, prod = store.options(), f"s3://{BUCKET}/prod"
        brokers = {each: f"{prod}/{each}" for each in BROKERS}
        with Cluster.create(f"{prod}/m1", brokers, storage_options=options) as cluster:
            cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
            cluster.append("orders", [(None, b"0"), (None, b"1")])
        for puts in count(1):
            trial = f"s3://{BUCKET}/trial-{puts}"
            copy_objects(store, prod, trial)
            die_after(store, puts)
            try:
                brokers = {each: f"{trial}/{each}" for each in BROKERS}
                Cluster.fork(f"{trial}/m1", brokers, storage_options=options)
                break
            except KafkaOnSparkError:
                store.key_id = "test"
            with pytest.raises(KafkaOnSparkError, match="cluster --fork"):
                Cluster.open(f"{trial}/m1", storage_options=options)
            check_forked(trial, 2, options)
        assert puts > 10

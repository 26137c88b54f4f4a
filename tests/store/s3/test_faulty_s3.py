"""The store of the tests: a server begins with nothing that an earlier one held."""

from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.store.s3.faulty_s3 import BUCKET, faulty_s3


def test_a_server_begins_empty_where_another_one_wrote():
    path = f"s3://{BUCKET}/broker/file"
    sizes = []
    for _ in range(2):
        with faulty_s3() as store:
            files = RootFiles(f"s3://{BUCKET}/broker", StorageOptions(store.options()))
            sizes.append(files.size(path))
            files.write(path, b"1")
            sizes.append(files.size(path))

    assert sizes == [None, 1, None, 1]

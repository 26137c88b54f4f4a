"""A cluster on a local disk and on two S3 endpoints that know different keys, as tests of Spark use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka_on_spark import Cluster
from kafka_on_spark.log.worker import replica_store
from tests.cluster.disks import FAST
from tests.store.s3.faulty_s3 import FaultyS3, Kind, faulty_s3

SECRET = "canary-Nf7qYd2WzA"
SETTINGS = {"timeout": "10s", "connect_timeout": "10s", "max_retries": "2"}
PATIENT = {
    **FAST,
    "delivery.timeout.ms": "60000",
    "min.insync.replicas": "2",
    "file.delete.delay.ms": "0",
}


@dataclass
class Stores:
    """Two endpoints, a folder, and the names under which their keys are known."""

    north: FaultyS3
    south: FaultyS3
    folder: Path
    options: dict[str, str] = field(default_factory=dict)

    def url(self, store: FaultyS3, path: str) -> str:
        return f"s3://{store.bucket}/{path}"

    def roots(self, name: str) -> dict[int, str]:
        """Return roots of three brokers: local, north and south."""
        return {
            1: str(self.folder / name / "broker-1"),
            2: self.url(self.north, f"{name}/broker-2"),
            3: self.url(self.south, f"{name}/broker-3"),
        }

    def create(self, name: str, metadata_root: str, spark: object = None) -> Cluster:
        replica_store.cache_clear()
        return Cluster.create(
            metadata_root,
            self.roots(name),
            configs=PATIENT,
            spark=spark,
            storage_options=self.options,
        )

    def in_spark(self) -> dict[str, str]:
        """Return the storage options as options of the data source."""
        return {f"storage.{name}": text for name, text in self.options.items()}

    def recover(self) -> None:
        self.north.recover()
        self.south.recover()


def lose(store: FaultyS3) -> None:
    """Have a store fail at every request, whoever asks."""
    for method in ("PUT", "GET", "HEAD", "DELETE", "POST"):
        store.order(Kind.ERROR_BEFORE, method=method, suffix="", count=-1)


def profile(name: str, store: FaultyS3) -> str:
    return (
        f"[profile {name}]\naws_access_key_id = {store.key_id}\n"
        f"aws_secret_access_key = {SECRET}\nregion = us-east-1\n"
        f"endpoint_url = {store.endpoint}\n"
    )


@contextmanager
def two_stores(folder: Path, profiles: Path) -> Iterator[Stores]:
    """Run both endpoints, whose keys stand in the file `profiles`."""
    with (
        faulty_s3("kos-north", "key-of-north") as north,
        faulty_s3("kos-south", "key-of-south") as south,
    ):
        profiles.write_text(profile("north", north) + profile("south", south))
        names = {"s3://kos-north": "profile:north", "s3://kos-south": "profile:south"}
        yield Stores(north, south, folder, names | SETTINGS)

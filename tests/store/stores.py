"""The stores of the suite for roots: how each is started, reached, and loses a bucket for a while."""

import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from moto.s3.models import s3_backends

from kafka_on_spark.store.roots import RootFiles, StorageOptions, filesystem
from tests.rigs.stores import servers
from tests.rigs.stores.servers import BUCKETS, Server
from tests.store.proxy import Answer, Proxy, Request
from tests.store.s3.faulty_s3 import CANARY, _stored, faulty_s3

TIMES = {"timeout": "20s", "connect_timeout": "5s"}
PART_BYTES = 110 * 2**20
"""What each client of an HTTP store sends in parts."""


@dataclass
class Store:
    """A store with the buckets of `BUCKETS`.

    Attributes:
        prefix: What stands before a bucket's name in a URL.
        given: Its storage options.
        proxy: Before its server; None: it does not speak HTTP.
        busy: Returns what it says of its own accord if it is asked too often, and the headers.
        spoils: How a signature becomes a wrong one; None: it checks none.
        data: The folder with a folder for each bucket; None: it has another way.
    """

    name: str
    prefix: str
    given: dict[str, str]
    proxy: Proxy | None = None
    busy: Callable[[int], tuple[bytes, dict[str, str]]] | None = None
    spoils: Callable[[str], str] | None = None
    data: Path | None = None
    taken: dict[str, list] = field(default_factory=dict)

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(self.given)

    def url(self, bucket: str, path: str) -> str:
        return f"{self.prefix}{bucket}/{path}"

    def files(self, bucket: str, path: str) -> RootFiles:
        return RootFiles(self.url(bucket, path), self.options)

    def fill(self, folder: str, names: list[str]) -> None:
        """Put a small file under each name, by the fastest way there is."""
        place = folder.removeprefix(self.prefix)
        if self.name in ("disk", "versitygw"):
            (self.data / place).mkdir(parents=True, exist_ok=True)
            for each in names:
                (self.data / place / each).write_bytes(b"1")
        elif self.name == "moto":
            bucket, _, path = place.partition("/")
            for each in names:
                _stored().put_object(bucket, f"{path}/{each}", b"1")
        elif self.proxy is not None:
            client = filesystem(folder, self.options)
            client.pipe({f"{folder}/{each}": b"1" for each in names}, batch_size=32)
        else:
            client = filesystem(folder, self.options)._client
            client.mkdirs(f"/{place}", create_parent=True)
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda name: client.create(f"/{place}/{name}").close(), names))

    def take_away(self, bucket: str) -> None:
        if self.name == "moto":
            names = _stored().buckets, s3_backends.bucket_accounts
            self.taken[bucket] = [(each, each.pop(bucket)) for each in names]
        elif self.data is not None:
            (self.data / bucket).rename(self.data / f"{bucket}.away")
        elif self.proxy is not None:
            self.proxy.answers.append(Answer(lambda request: f"/{bucket}/" in request[1], None))
        else:
            self._rename(bucket, f"{bucket}-away")

    def give_back(self, bucket: str) -> None:
        if self.name == "moto":
            for names, value in self.taken.pop(bucket):
                names[bucket] = value
        elif self.data is not None:
            shutil.rmtree(self.data / bucket, ignore_errors=True)
            (self.data / f"{bucket}.away").rename(self.data / bucket)
        elif self.proxy is not None:
            self.proxy.recover()
        else:
            filesystem(self.url(bucket, ""), self.options).rm(self.url(bucket, ""), recursive=True)
            self._rename(f"{bucket}-away", bucket)

    def _rename(self, bucket: str, other: str) -> None:
        filesystem(self.prefix, self.options)._client.rename(f"/{bucket}", f"/{other}", False)


def _s3_words(status: int) -> tuple[bytes, dict[str, str]]:
    body = (
        b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    )
    return body, {"Content-Type": "application/xml", "Retry-After": "1"}


def _azure_words(status: int) -> tuple[bytes, dict[str, str]]:
    body = (
        b"<Error><Code>ServerBusy</Code><Message>Please reduce your request rate.</Message></Error>"
    )
    kind = {"Content-Type": "application/xml", "x-ms-error-code": "ServerBusy"}
    return body, {**kind, "Retry-After": "1"}


def _google_words(status: int) -> tuple[bytes, dict[str, str]]:
    error = {"code": status, "message": "Please reduce your request rate."}
    body = json.dumps({"error": error}).encode()
    return body, {"Content-Type": "application/json", "Retry-After": "1"}


def _s3(
    name: str, proxy: Proxy, key: str, secret: str, spoilt: str, data: Path | None = None
) -> Store:
    given = {
        "aws_endpoint_url": f"http://127.0.0.1:{proxy.port}",
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_region": "us-east-1",
        "max_retries": "1",
        **TIMES,
    }
    return Store(
        name, "s3://", given, proxy, _s3_words, lambda text: text.replace(spoilt, f"{spoilt}0"), data
    )  # fmt: skip


@contextmanager
def disk(folder: Path) -> Iterator[Store]:
    for each in BUCKETS:
        (folder / each).mkdir(parents=True)
    yield Store("disk", f"{folder}/", {}, data=folder)


@contextmanager
def moto(folder: Path) -> Iterator[Store]:
    with faulty_s3(BUCKETS[0]) as server, Proxy(int(server.endpoint.rpartition(":")[2])) as proxy:
        for each in BUCKETS[1:]:
            for names in (_stored().buckets, s3_backends.bucket_accounts):
                names.pop(each, None)
            _stored().create_bucket(each, "us-east-1")
        yield _s3("moto", proxy, server.key_id, CANARY, "Credential=")


@contextmanager
def _served(
    server: Server, folder: Path, *packages: str
) -> Iterator[tuple[servers.Running, Proxy]]:
    """Run a server with a proxy before it, or skip the test and say why."""
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if missing:
        pytest.skip(
            f"{server.name} needs the Python package {missing[0]}: see tests/rigs/README.md"
        )
    if why := server.why_absent():
        pytest.skip(why)
    with Proxy() as proxy:
        running = server.start(folder, public=proxy.port)
        proxy.upstream = running.port
        try:
            yield running, proxy
        finally:
            running.stop()


@contextmanager
def versitygw(folder: Path) -> Iterator[Store]:
    with _served(servers.VERSITYGW, folder) as (running, proxy):
        yield _s3(
            "versitygw", proxy, servers.KEY, servers.SECRET, "Signature=", running.folder / "data"
        )


@contextmanager
def azurite(folder: Path) -> Iterator[Store]:
    with _served(servers.AZURITE, folder, "adlfs") as (_, proxy):
        given = {
            "azure_account_name": servers.AZURE_ACCOUNT,
            "azure_account_key": servers.AZURE_KEY,
            "azure_endpoint_url": f"http://127.0.0.1:{proxy.port}/{servers.AZURE_ACCOUNT}",
            **TIMES,
        }
        client = filesystem("az://bk1", StorageOptions(given))
        for each in BUCKETS:
            client.mkdir(each)
        spoils = lambda text: text.replace(":", ":AAAA")  # noqa: E731 - as those of others
        yield Store("Azurite", "az://", given, proxy, _azure_words, spoils)


@contextmanager
def fake_gcs(folder: Path) -> Iterator[Store]:
    with _served(servers.FAKE_GCS, folder, "gcsfs") as (running, proxy):
        given = {"anon": "true", "google_endpoint_url": f"http://127.0.0.1:{proxy.port}", **TIMES}
        yield Store(
            "fake-gcs-server", "gs://", given, proxy, _google_words, data=running.folder / "data"
        )


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    with _served(servers.HDFS, folder, "hdfs_native") as (running, _):
        yield Store("HDFS", f"hdfs://127.0.0.1:{running.port}/", {})


ALWAYS = {"disk": disk, "moto": moto}
ELSEWHERE = {"versitygw": versitygw, "Azurite": azurite, "fake-gcs-server": fake_gcs, "HDFS": hdfs}


def is_put_of(path: str) -> Callable[[Request], bool]:
    """Return what tells the requests that put a file's bytes: of S3, Azure or Google."""
    name = path.rpartition("/")[2]
    return lambda request: (
        request[0] in ("PUT", "POST") and (name in request[1] or "/upload/" in request[1])
    )


@contextmanager
def started(name: str, folder: Path) -> Iterator[Store]:
    with ExitStack() as stack:
        os.environ.setdefault("NO_GCE_CHECK", "true")  # Google's client looks for its cloud
        yield stack.enter_context((ALWAYS | ELSEWHERE)[name](folder))

"""The servers of stores that are not in this process: how each is fetched, and how it is started."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.rigs.rig import RigError

CACHE_VARIABLE: Final = "KAFKA_ON_SPARK_STORES_CACHE"
"""The variable that names the folder of what is fetched; without it, one in the user's cache."""

BUCKETS: Final = ("bk1", "bk2", "bk3", "bk4")
"""A bucket for each broker's root, and one for metadata."""

KEY, SECRET = "stores", "stores-secret"
AZURE_ACCOUNT: Final = "devstoreaccount1"
AZURE_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The account of every Azurite, as its manual prints it."""

START_SECONDS_MAX: Final = 120
HERE: Final = Path(__file__).parent


def cache() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    users = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given or f"{users}/kafka-on-spark/stores").expanduser().absolute()


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        file: What `fetching` leaves in the cache's folder.
        tools: Commands that fetch and run it.
        fetching: The command that fetches it; {cache} and {here} stand for folders.
        starting: Returns the command that runs it, of its folder, its port, and the port that
            clients use.
    """

    name: str
    version: str
    file: str
    tools: tuple[str, ...]
    fetching: tuple[str, ...]
    starting: Callable[[Path, int, int], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)

    def why_absent(self) -> str | None:
        """Return why it can't be started, in a sentence; None if it can."""
        missing = self._missing()
        if missing is None and not (cache() / self.file).exists():
            fetch = f"{sys.executable} -m tests.rigs.stores fetch"
            missing = f"{self.name} is not in {cache()}: fetch it by {fetch}"
        return missing

    def _missing(self) -> str | None:
        missing = [each for each in self.tools if shutil.which(each) is None]
        names = " and ".join(missing)
        return f"{self.name} needs the command {names}, which is not found: install it" if missing else None

    def fetch(self) -> None:
        """Fetch it, unless it is there.

        Raises:
            RigError: A tool is missing, or fails.
        """
        if missing := self._missing():
            raise RigError(missing)
        if (cache() / self.file).exists():
            return
        cache().mkdir(parents=True, exist_ok=True)
        command = [each.format(cache=cache(), here=HERE) for each in self.fetching]
        environment = {**os.environ, "GOBIN": str(cache()), "CGO_ENABLED": "0"}
        if code := subprocess.run(command, env=environment, check=False).returncode:
            raise RigError(f"{self.name} can't be fetched: {' '.join(command)} ended with {code}")

    def start(self, folder: Path, port: int = 0, public: int = 0) -> "Running":
        """Start it in a folder, and wait until it answers. `port`: a free one by default; `public`:
        where clients reach it, if that is another.

        Raises:
            RigError: It ended at once, or does not answer.
        """
        if missing := self.why_absent():
            raise RigError(missing)
        port = port or free_port()
        for each in BUCKETS:
            (folder / "data" / each).mkdir(parents=True, exist_ok=True)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                self.starting(folder, port, public or port),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        running = Running(self, folder, process, port)
        until = time.monotonic() + START_SECONDS_MAX
        while not self._answers(folder, port):
            if process.poll() is not None or time.monotonic() > until:
                running.stop()
                raise RigError(f"{self.name} does not start: see {folder / 'log'}")
            time.sleep(0.05)
        return running

    def _answers(self, folder: Path, port: int) -> bool:
        if self is HDFS:  # its port answers before a data node does
            return (folder / "details.json").exists()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Running:
    """A server that runs; `folder` has its log and, but for HDFS and Azurite, a folder `data` with
    one for each bucket."""

    server: Server
    folder: Path
    process: "subprocess.Popen[Any]"
    port: int

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


VERSITYGW: Final = Server(
    "versitygw", "1.8.0", "versitygw", ("go",),
    ("go", "install", "-ldflags=-s -w", "github.com/versity/versitygw/cmd/versitygw@v1.8.0"),
    lambda folder, port, public: [
        f"{cache()}/versitygw", "--port", f"127.0.0.1:{port}", "--region", "us-east-1",
        "posix", f"{folder}/data",
    ],
    {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
)  # fmt: skip
AZURITE: Final = Server(
    "Azurite", "3.37.0", "node_modules/azurite/dist/src/blob/main.js", ("npm", "node"),
    ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", "{cache}", "azurite@3.37.0"),
    lambda folder, port, public: [
        "node", f"{cache()}/{AZURITE.file}", "--blobHost", "127.0.0.1", "--blobPort", str(port),
        "--location", f"{folder}/azurite", "--silent", "--skipApiVersionCheck", "--disableTelemetry",
    ],
)  # fmt: skip
FAKE_GCS: Final = Server(
    "fake-gcs-server", "1.56.1", "fake-gcs-server", ("go",),
    ("go", "install", "-ldflags=-s -w", "github.com/fsouza/fake-gcs-server@v1.56.1"),
    lambda folder, port, public: [
        f"{cache()}/fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-backend", "filesystem", "-filesystem-root", f"{folder}/data", "-log-level", "warn",
        "-external-url", f"http://127.0.0.1:{public}", "-public-host", f"127.0.0.1:{public}",
    ],
)  # fmt: skip
HDFS: Final = Server(
    "HDFS", "3.5.0", "hadoop", ("mvn", "java"),
    ("mvn", "-B", "-q", "-f", "{here}/pom.xml", "dependency:copy-dependencies", "-DoutputDirectory={cache}/hadoop"),
    lambda folder, port, public: [
        "java", "-Xmx1g", f"-Dtest.build.data={folder}/data", f"-Dhadoop.log.dir={folder}",
        "-cp", f"{cache()}/hadoop/*", "org.apache.hadoop.mapreduce.MiniHadoopClusterManager",
        "-format", "-nomr", "-nnport", str(port), "-datanodes", "2",
        "-writeDetails", f"{folder}/details.json",
    ],
)  # fmt: skip
SERVERS: Final = (VERSITYGW, AZURITE, FAKE_GCS, HDFS)

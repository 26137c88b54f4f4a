"""What runs on the hosts: a store, Spark's daemons or YARN, and drivers on h0; and how it is made."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.rigs.hosts.hosts import ADDRESSES, SHARED, Hosts
from tests.rigs.rig import CHECKOUT, RigError
from tests.rigs.stores.servers import HDFS, KEY, SECRET, VERSITYGW, cache

HERE: Final = Path(__file__).parent
MADE: Final = cache().parent / "hosts"
"""A virtual environment with the package, the archive of it, and jars that hosts need besides."""

SPARK, IMAGE, JARS = "/opt/spark", "/opt/image", "/opt/jars"
STORES, CREDENTIALS = "/opt/stores", "/root/.aws"
WORKERS: Final = ("h1", "h2", "h3")
NAMED: Final = "s3://bk1=profile:hosts"
"""The value of KAFKA_ON_SPARK_STORAGE, which each process needs, executors too."""

BASES: Final = {"store": "s3://bk1", "mount": SHARED}
START_S_MAX, RUN_S_MAX = 600, 1200
Driver = tuple["subprocess.Popen[Any]", Path]
"""A spark-submit that runs on h0, and what it prints."""


class WrongError(Exception):
    """A run found something wrong; the text says what."""


def make() -> None:
    """Make what hosts mount, unless it is there and of this state of the sources.

    Raises:
        RigError: A tool is missing, or fails.
    """
    tools = ("ip", "nsenter", "unshare", "setpriv", "java", "mvn")
    if missing := [each for each in tools if shutil.which(each) is None]:
        raise RigError(f"the command {missing[0]} is not found: install it")
    if os.geteuid():
        raise RigError("hosts are namespaces, which root alone may make: run it as root")
    if absent := VERSITYGW.why_absent() or HDFS.why_absent():
        raise RigError(absent)
    if not (MADE / "jars").exists():
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={MADE}/jars"]
        copy += ["-DincludeScope=runtime", "-DexcludeGroupIds=io.netty,org.slf4j"]
        _run("mvn", "-B", "-q", "-f", f"{HERE}/pom.xml", *copy)
    lock, image = CHECKOUT / "conf/run.lock", MADE / "image"
    if is_new := not _is_of(image / "lock", lock):
        venv.create(image, clear=True, with_pip=True)
        _run(f"{image}/bin/pip", "install", "-q", "--require-hashes", "-r", str(lock))
        (image / "lock").write_text(_digest(lock))
    parts = [
        *CHECKOUT.glob("kafka_on_spark/**/*"),
        *CHECKOUT.glob("conf/*"),
        CHECKOUT / "pyproject.toml",
    ]
    sources = sorted(each for each in parts if each.is_file() and each.suffix != ".pyc")
    if is_new or not _is_of(image / "stamp", *sources):
        _install(sources, image)
        (image / "stamp").write_text(_digest(*sources))


def _install(sources: list[Path], image: Path) -> None:
    """Install a wheel of the sources, and pack the whole; of a copy, since builds leave folders."""
    copied, pip = MADE / "sources", [f"{image}/bin/pip", "-q"]
    shutil.rmtree(copied, ignore_errors=True)
    for each in (*sources, CHECKOUT / "README.md", CHECKOUT / "LICENSE"):
        target = copied / each.relative_to(CHECKOUT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, target)
    _run(*pip, "wheel", "--no-deps", "-w", f"{copied}/wheel", str(copied))
    wheel = next((copied / "wheel").iterdir())
    _run(*pip, "install", "--no-deps", "--force-reinstall", str(wheel))
    pack = ["tar", "-I", "gzip -1", "-cf", f"{MADE}/environment.tar.gz"]
    _run(*pack, "--exclude=*/pyspark/jars", "-C", str(image), ".")


def _run(*command: str) -> None:
    if code := subprocess.run(command, check=False).returncode:
        raise RigError(f"{' '.join(command)} ended with {code}: see above")


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def _is_of(mark: Path, *files: Path) -> bool:
    return mark.exists() and mark.read_text() == _digest(*files)


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + START_S_MAX
    while not is_so():
        if time.monotonic() > until:
            raise WrongError(f"{what} was not seen in {START_S_MAX} s")
        time.sleep(0.1)


def end_of(driver: Driver) -> list[str]:
    """Wait until a driver has ended; return what it found.

    Raises:
        WrongError: It does not end, or failed.
    """
    process, log = driver
    try:
        code = process.wait(RUN_S_MAX)
    except subprocess.TimeoutExpired:
        raise WrongError(f"{log.name} hangs: see {log}") from None
    lines = log.read_text(errors="replace").splitlines()
    if code:
        why = [each for each in lines if each.startswith("WRONG")] or lines[-1:] or [""]
        raise WrongError(f"{log.name} ended with {code}: {why[0]}; see {log}")
    found = [each for each in lines if each.startswith(("STEP ", "Number ", "Nothing is new"))]
    return [f"{log.name}: {each.removeprefix('STEP ')}" for each in found or lines[-1:]]


class Bed(Hosts):
    """Hosts with a store, and with the package by `way`: "image" or "archive"."""

    def __init__(self, folder: Path, way: str = "image") -> None:
        self._way, keys = way, folder / "aws"
        keys.mkdir(parents=True)
        text = f"[hosts]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
        (keys / "credentials").write_text(text)
        text = "[profile hosts]\nregion = us-east-1\nendpoint_url = http://store:7070\n"
        (keys / "config").write_text(text)
        home = next((MADE / "image/lib").glob("python3.*/site-packages/pyspark"))
        images = {SPARK: home, JARS: MADE / "jars", STORES: cache(), CREDENTIALS: keys}
        images |= {IMAGE: MADE / "image"} if way == "image" else {}
        if not sys.base_prefix.startswith("/usr"):
            images[sys.base_prefix] = Path(sys.base_prefix)
        super().__init__(folder, images, [CHECKOUT, (CHECKOUT / ".venv").resolve(), MADE])
        self.marks = self.shared / "marks"

    def __enter__(self) -> "Bed":
        super().__enter__()
        words = f"{STORES}/versitygw --port {ADDRESSES['store']}:7070 --region us-east-1 posix data"
        self.spawn("store", "log", f"mkdir -p data/bk1; exec {words}", **VERSITYGW.environment)
        (self.folder / "h0/environment").symlink_to(MADE / "image")
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for each in WORKERS:  # what Spark unpacked there is large
            shutil.rmtree(self.folder / each / "work", ignore_errors=True)

    def start_spark(self) -> None:
        """Start a master on h1, and a worker on each of h1 to h3."""
        run, log = (
            f"exec {SPARK}/bin/spark-class org.apache.spark.deploy",
            self.folder / "h1/master",
        )
        self._daemon("h1", "master", f"{run}.master.Master --host h1 --port 7077")
        wait_for(lambda: "elected leader" in log.read_text(errors="replace"), "a master")
        for name in WORKERS:
            size = "--cores 1 --memory 1200m --work-dir /tmp/work"
            self._daemon(
                name, "worker", f"{run}.worker.Worker --host {name} {size} spark://h1:7077"
            )
        count = len(WORKERS)
        wait_for(
            lambda: log.read_text(errors="replace").count("Registering worker") >= count,
            "all workers",
        )

    def start_yarn(self) -> None:
        """Start a ResourceManager and a NodeManager, in one JVM on h1."""
        shutil.copy(HERE / "Yarn.java", self.shared)
        jars = f"{STORES}/hadoop/*:{JARS}/*"
        self._daemon("h1", "yarn", f"exec java -Xmx512m -cp '{jars}' {SHARED}/Yarn.java {SHARED}")
        wait_for((self.shared / "conf").exists, "YARN")

    def _daemon(self, name: str, log: str, line: str) -> None:
        own = {"SPARK_LOCAL_IP": ADDRESSES[name], "SPARK_HOME": SPARK}
        self.spawn(name, log, line, SPARK_DAEMON_MEMORY="384m", **own)

    def submit(
        self, name: str, job: str, options: str = "", settings: Mapping[str, str] | None = None
    ) -> Driver:
        """Start a job of the checkout, with its arguments, by the launcher on h0; on Spark's master
        unless `options` name another one."""
        python = f"{IMAGE}/bin/python"
        if self._way == "archive":
            python = "./environment/bin/python"
            options += f" --archives {MADE}/environment.tar.gz#environment"
        own = {
            "spark.executor.memory": "900m", "spark.driver.memory": "1g", "spark.ui.enabled": "false",
            "spark.driver.host": ADDRESSES["h0"], "spark.executorEnv.KAFKA_ON_SPARK_STORAGE": NAMED,
            **(settings or {}),
        }  # fmt: skip
        words = " ".join(f"--conf '{key}={value}'" for key, value in own.items())
        launch = f"exec {CHECKOUT}/spark-submit.sh --master spark://h1:7077 {options} {words}"
        process = self.spawn(
            "h0", name, f"{launch} {CHECKOUT}/{job}", PYSPARK_PYTHON=python,
            SPARK_LOCAL_IP=ADDRESSES["h0"], KAFKA_ON_SPARK_STORAGE=NAMED, HADOOP_CONF_DIR=f"{SHARED}/conf",
        )  # fmt: skip
        return process, self.folder / "h0" / name

    def steps(
        self, name: str, steps: str, base: str = BASES["store"],
        options: str = "", settings: Mapping[str, str] | None = None,
    ) -> Driver:  # fmt: skip
        """Start job.py with steps and options of its own."""
        job = f"{HERE.relative_to(CHECKOUT)}/job.py {base}/rig --marks {SHARED}/marks {steps}"
        return self.submit(name, job, options, settings)

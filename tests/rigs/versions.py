"""Try versions of Python and of packages as a newcomer meets them: by the wheel, without a checkout.

For each Python: a fresh environment; the wheel alone, with a page on consumers and the command line;
its extras, with batches on Spark, pages with streams and pictures, one of them as a notebook; then a
Spark Connect server. A row of a table says what happened. uv, which has to be on the PATH, makes the
environments. What was printed stays in the folder.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.pages import blocks
from tests.rigs.rig import CHECKOUT

PACKAGES: Final = ("pyspark", "delta-spark", "pyarrow", "pandas", "numpy", "deltalake")
ALONE: Final = """
import sys
from importlib.util import find_spec
from kafka_on_spark.cli import main
assert not (find_spec("pyspark") or find_spec("pandas"))
main()
"""
VERSIONS: Final = """
import platform, sys
from importlib.metadata import version
print(platform.python_version(), *map(version, sys.argv[1:]))
"""
BATCHES: Final = """
from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session

spark = build_session("batches")
brokers = {number: f"batches/broker-{number}" for number in (1, 2, 3)}
with Cluster.create("batches/metadata", spark=spark, brokers=brokers) as cluster:
    cluster.create_topic("t", partitions=2, replication_factor=3)
    rows = spark.range(1000).selectExpr("string(id) AS key", "string(id) AS value")
    to = rows.write.format("kafka_on_spark").option("cluster", cluster.root).option("topic", "t")
    to.mode("append").save()
    cluster.append("t", rows)
    cluster.append("t", rows.limit(10).toPandas())
    read = spark.read.format("kafka_on_spark").option("cluster", cluster.root)
    assert read.option("subscribe", "t").load().count() == cluster.count("t") == 2010
    cluster.view("t", name="t_now")
    assert spark.sql("SELECT count(DISTINCT value) FROM t_now").first()[0] == 1000
"""
CONNECT: Final = """
from pathlib import Path
from pyspark.sql import SparkSession
from kafka_on_spark import Cluster, KafkaOnSparkError, lag

spark = SparkSession.builder.remote("local").getOrCreate()
here = Path("connect").absolute()
cluster = Cluster.create(here / "metadata", brokers={1: here / "broker-1"})
for name in ("t", "copies"):
    cluster.create_topic(name, partitions=2, replication_factor=1)

def of(builder, **options):
    return builder.format("kafka_on_spark").options(cluster=cluster.root, **options)

rows = spark.range(1000).selectExpr("string(id) AS key", "string(id) AS value")
of(rows.write, topic="t").mode("append").save()
assert of(spark.read, subscribe="t").load().count() == 1000
arrivals = of(spark.readStream, subscribe="t", startingOffsets="earliest").load()
to = of(arrivals.select("key", "value").writeStream, topic="copies")
query = to.option("checkpointLocation", str(here / "checkpoint")).trigger(availableNow=True).start()
query.awaitTermination()
assert cluster.count("copies") == 1000
assert lag(query.lastProgress)["maxOffsetsBehindLatest"] == "0"
try:
    Cluster.open(cluster.root, spark=spark)
except KafkaOnSparkError as error:
    assert "Spark Connect" in str(error)
else:
    raise AssertionError("it was opened")
"""
NOTEBOOK: Final = """
import json, nbformat, sys
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(each) for each in json.loads(sys.stdin.read())]
NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=600, kernel_name="python3").execute()
"""


class FailedStepError(Exception):
    """A program failed; the text says where its output is."""


class Environment:
    """An environment in a new folder. Programs run beside it, with nothing of a checkout."""

    def __init__(self, folder: Path, python: str, wanted: Sequence[str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._python = folder / "environment" / "bin" / "python"
        (folder / "wanted.txt").write_text("\n".join(wanted))
        hidden = {"PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "VIRTUAL_ENV"}
        self._variables = {name: text for name, text in os.environ.items() if name not in hidden}
        self._call("make", ("uv", "venv", "--quiet", "--python", python, folder / "environment"))

    def install(self, *packages: str) -> None:
        into = ("--python", self._python, "--constraints", self._folder / "wanted.txt")
        self._call("install", ("uv", "pip", "install", "--quiet", *into, *packages))

    def run(self, name: str, program: str, *arguments: str, given: str = "") -> str:
        """Run a program; return what it printed."""
        return self._call(name, (self._python, "-c", program, *arguments), given)

    def _call(self, name: str, command: Sequence[str | Path], given: str = "") -> str:
        log = self._folder / f"{name}.log"
        with log.open("w") as said:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env=self._variables,
                input=given,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
            said.write(done.stdout)
        if done.returncode:
            raise FailedStepError(f"{name} failed: {log}")
        return done.stdout


def tried(folder: Path, python: str, wheel: Path, wanted: Sequence[str]) -> str:
    """Return a row: the versions, and that all passed, or the step that failed."""
    found = [python, *wanted]
    try:
        environment = Environment(folder, python, wanted)
        environment.install(str(wheel))
        environment.run("alone", ALONE, "--version")
        environment.run("consumer", "\n".join(blocks("docs/consumer.md", "python")))
        peers = ("nbclient", "polars", "pyspark[connect]")
        environment.install(f"{wheel}[spark,notebook]", *peers)
        found = environment.run("versions", VERSIONS, *PACKAGES).split()
        environment.run("batches", BATCHES)
        environment.run("pages", "\n".join(blocks("docs/look-into-it.md", "python")))
        has_streams = found[1] >= "4.2"  # before, a stream can't read topics
        again = [BATCHES.replace("batches", "again")]
        cells = blocks("docs/get-started.md", "python") if has_streams else again
        environment.run("notebook", NOTEBOOK, given=json.dumps(cells))
        if has_streams:
            environment.run("connect", CONNECT)
        outcome = "all passed" if has_streams else "all passed, without streams"
    except FailedStepError as failure:
        outcome = str(failure)
    return f"| {' | '.join(found)} | {outcome} | {datetime.now(UTC):%Y-%m-%d} |"


def main() -> int:
    """Print a row for each Python; return 0 if all passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", nargs="+", help="a version or a path, as uv takes it: 3.12")
    parser.add_argument("--with", nargs="*", default=[], dest="wanted", metavar="PACKAGE==VERSION")
    parser.add_argument("--dir", type=Path, help="where a folder for all of it is made")
    given = parser.parse_args()
    if shutil.which("uv") is None:
        sys.exit("versions.py: found no uv on the PATH: pip install uv")
    folder = Path(tempfile.mkdtemp(prefix="versions-", dir=given.dir))
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder, CHECKOUT], check=True)
    print("| Python |", " | ".join(PACKAGES), "| outcome | date |")
    print("|---" * (len(PACKAGES) + 3) + "|")
    rows = []
    for number, python in enumerate(given.python):
        place, wheel = folder / str(number), next(folder.glob("*.whl"))
        rows.append(tried(place, python, wheel, given.wanted))
        print(rows[-1], flush=True)
    return int(any("| all passed" not in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())

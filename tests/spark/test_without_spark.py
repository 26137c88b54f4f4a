"""What a process does where neither Spark nor pandas is installed."""

import os
import subprocess
import sys

from tests.pages import ROOT

ABSENT = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"pyspark", "delta", "py4j", "deltalake", "pandas"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
CLUSTER = """
from kafka_on_spark import Cluster

brokers = {number: f"{root}/broker-{number}" for number in (1, 2)}
with Cluster.create(f"{root}/metadata", brokers=brokers) as cluster:
    cluster.create_topic("t", partitions=2, replication_factor=2)
    cluster.append("t", [{"value": b"a"}])
    cluster.append("t", [{"value": b"b"}])
    assert sorted(cluster.read("t").column("value").to_pylist()) == [b"a", b"b"]
    with cluster.producer() as producer:
        producer.send("t", None, b"c")
    with cluster.consumer(["t"], group="g", auto_offset_reset="earliest") as consumer:
        found = []
        while len(found) < 3:
            found += consumer.poll(timeout_ms=1000).column("value").to_pylist()
    assert sorted(found) == [b"a", b"b", b"c"]
"""
SERVING = """
from kafka_on_spark.cli.serve import answer_probes
from kafka_on_spark.console.serving import ServedCluster
from kafka_on_spark.store.roots import StorageOptions

served = ServedCluster(f"{root}/metadata", StorageOptions({}), None)
served.begin()
assert answer_probes("127.0.0.1", 0, served)
assert served.end(20_000)
"""
REFUSED = """
from kafka_on_spark import KafkaOnSparkError

for name in ("lag", "build_session"):
    try:
        if name == "lag":
            from kafka_on_spark import lag
        else:
            from kafka_on_spark.spark.session import build_session
    except KafkaOnSparkError as error:
        print(error)
"""
CLI = "from kafka_on_spark.cli import main\nmain()\n"


def run(program, root, *arguments, lines=""):
    return subprocess.run(
        [sys.executable, "-c", f"{ABSENT}root = {str(root)!r}\n{program}", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "KAFKA_ON_SPARK_CLUSTER": f"{root}/metadata"},
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cluster_the_command_line_and_serve_need_no_spark(tmp_path):
    consume = ("consume", "--topic", "t", "--from-beginning", "--max-messages", "4")

    for done in (
        run(CLUSTER, tmp_path),
        run(CLI, tmp_path, "produce", "--topic", "t", lines="d\n"),
        read := run(CLI, tmp_path, *consume),
        run(SERVING, tmp_path),
    ):
        assert done.returncode == 0, done.stderr

    assert sorted(read.stdout.split()) == ["a", "b", "c", "d"]


def test_what_needs_spark_says_how_to_install_it(tmp_path):
    said = "no Spark is installed: pip install 'kafka_on_spark[spark]'"

    assert run(CLUSTER, tmp_path).returncode == 0
    assert run(REFUSED, tmp_path).stdout.splitlines() == [said, said]
    served = run(CLI, tmp_path, "serve", "--spark")
    assert served.returncode == 2
    assert said in served.stderr

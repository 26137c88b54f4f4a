"""jobs/append.py: each record of a folder or a table once, whatever happens between two runs."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from jobs import append as job
from tests.cluster.disks import new_disks
from tests.cluster.mortal import KilledError, Life, make_mortal

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
KEYS = ("a", "b", "d")


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
        yield disks


def write(folder, name, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(first, count=30):
    return [{"k": KEYS[n % 3], "n": n} for n in range(first, first + count)]


def run(spark, disks, source, *options, cluster=None):
    """Run the job as its command line would."""
    where = ["--cluster", disks.metadata_root, "--checkpoint", disks.base / "checkpoint"]
    words = [source, "--topic", "orders", "--id", "load", *where, *options]
    return job.append(spark, cluster or disks.cluster, job.parse([str(each) for each in words]))


def by_key(cluster, topic="orders"):
    """Return the numbers in each key's values, in the order of the log."""
    found = defaultdict(list)
    for row in cluster.read(topic).to_pylist():
        found[row["key"].decode()].append(json.loads(row["value"])["n"])
    return dict(found)


def in_order(count):
    return {key: list(range(place, count, 3)) for place, key in enumerate(KEYS)}


JSON = ("--format", "json", "--key", "k")


def test_what_is_new_is_appended_once_and_in_the_order_of_names(spark, disks, tmp_path, capsys):
    write(tmp_path / "in 1", "0.json", rows(900))  # not of the source, whose name is a pattern, too
    source = tmp_path / "in [1]"
    write(source, "1.json", rows(0))
    write(source, "2 [x] {y}%20*.json", rows(30, 300))
    run(spark, disks, source, *JSON)
    run(spark, disks, source, *JSON)
    write(source / "day=3", "3.json", rows(330))
    run(spark, disks, source, *JSON)

    assert by_key(disks.cluster) == in_order(360)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(";")[0] for line in said] == [
        "Number 0: 330 records appended to orders, 0 found as appended before",
        f"Nothing is new in {source}",
        "Number 1: 30 records appended to orders, 0 found as appended before",
    ]
    last = disks.cluster.read("orders").to_pylist()
    assert '"day":3' in max((row["value"].decode() for row in last), key=len)


COMMITS = 8
"""The run's epoch, the replicas' directories, records of two partitions on the leaders and on the
followers, the high watermarks; the last one is Spark's note that the number is done."""


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(at, marks=[] if at in (3, COMMITS) else pytest.mark.long)
        for at in range(1, COMMITS + 2)
    ],
)
def test_a_run_that_dies_at_any_commit_is_finished_by_the_next(spark, tmp_path, monkeypatch, at):
    source, life = tmp_path / "in", Life(at)
    write(source, "1.json", rows(0))
    with new_disks(2) as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=2)
        try:
            run(spark, disks, source, *JSON, cluster=mortal(disks.open(), life, monkeypatch))
        except DiedError:
            assert at <= COMMITS
        else:
            assert life.commits == COMMITS
        write(source, "2.json", rows(30))

        run(spark, disks, source, *JSON, cluster=disks.open())

        assert by_key(disks.cluster) == in_order(60)
        assert disks.cluster.fsck().findings == ()


def test_a_job_that_pauses_for_longer_than_its_id_lives_goes_on(spark, disks, tmp_path):
    write(tmp_path / "in", "1.json", rows(0))
    run(spark, disks, tmp_path / "in", *JSON)
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": 1})
    disks.cluster.run_controller()
    disks.cluster.alter_cluster_configs({"producer.id.expiration.ms": None})
    assert "load" in disks.cluster.image.expired_producers
    write(tmp_path / "in", "2.json", rows(30))

    run(spark, disks, tmp_path / "in", *JSON, cluster=disks.open())

    assert by_key(disks.cluster) == in_order(60)


class DiedError(Exception):
    """A run has died in an append."""


def mortal(cluster, life, monkeypatch):
    make_mortal(cluster._node, life)
    append = cluster.append

    def append_and_die(*arguments, **named):
        try:
            result = append(*arguments, **named)
            return life.commit(lambda: result)
        except KilledError as killed:  # Spark waits for the answer of a callback
            raise DiedError from killed

    monkeypatch.setattr(cluster, "append", append_and_die)
    return cluster


def remove(source):
    (source / "1.json").unlink()


def test_what_is_appended_may_go_and_what_changes_then_is_not_appended_again(
    spark, disks, tmp_path
):
    source = tmp_path / "in"
    write(source, "1.json", rows(0))
    write(source, "2.json", rows(30))
    run(spark, disks, source, *JSON)
    remove(source)
    write(source, "2.json", rows(0))
    write(source, "3.json", rows(60))

    run(spark, disks, source, *JSON)

    assert by_key(disks.cluster) == in_order(90)


# fmt: off
WRONG = [
    pytest.param({"source": "nowhere"},   ["Path does not exist", "nowhere"],       id="no such folder"),
    pytest.param({"--key": "kk"},         ["`kk`", "[`k`, `n`]"],                   id="no such column"),
    pytest.param({"--headers": "k"},      ['"MAP" type', '"STRING"'],                id="a text for headers"),
    pytest.param({"--id": ""},            ["producer_id can't be ''"],                           id="no id"),
    pytest.param({"--topic": "ordres"},   ["ordres", "orders"],                      id="no such topic"),
    pytest.param({"--cluster": "none"},   ["there is no cluster", "none"],           id="no such cluster"),
    pytest.param({"source": "s3://b/in"}, ["can't scan s3a://", "spark.jars.packages", "give a folder"], id="no client for a store"),
]
# fmt: on


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("wrong, words", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(disks, tmp_path, monkeypatch, capsys, wrong, words):
    write(tmp_path / "in", "1.json", rows(0))
    monkeypatch.chdir(tmp_path)
    options = {
        "--cluster": disks.metadata_root, "--topic": "orders", "--key": "k", "--format": "json",
        "--id": "load", "--checkpoint": "lists",
    } | wrong  # fmt: skip
    source = options.pop("source", "in")

    code = job.main([source, *(str(word) for each in options.items() for word in each)])

    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("./spark-submit.sh jobs/append.py: ")
    assert said.err.count("\n") == 1
    for word in words:
        assert word in said.err
    assert by_key(disks.cluster) == {}


def test_columns_become_records(spark, disks, tmp_path):
    frame = spark.createDataFrame(
        [("a", 1, 1_700_000_000_123, {"h": "x"}, {"n": 1}), ("b", 2, None, None, None)],
        "k string, n int, at long, h map<string,string>, s struct<n:int>",
    )
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    columns = ("--key", "n", "--value", "s", "--headers", "h", "--timestamp", "at")

    run(spark, disks, tmp_path / "in", "--format", "parquet", *columns)

    found = {row["key"]: row for row in disks.cluster.read("orders").to_pylist()}
    assert {key: row["value"] for key, row in found.items()} == {b"1": b'{"n":1}', b"2": None}
    assert found[b"1"]["headers"] == [{"key": "h", "value": b"x"}]
    assert found[b"1"]["timestamp"].timestamp() == 1_700_000_000.123


@pytest.mark.long
def test_a_table_that_grows_is_appended_version_by_version(spark, disks, tmp_path):
    table = str(tmp_path / "a table")
    options = ("--format", "delta", "--key", "k")

    def add(first):
        more = spark.createDataFrame(rows(first), "k string, n int")
        more = more.selectExpr("*", "concat(k, ' %', n % 2) AS p").coalesce(1)
        more.write.format("delta").partitionBy("p").mode("append").save(table)

    add(0)
    add(30)
    run(spark, disks, table, *options)
    add(60)
    spark.sql(f"OPTIMIZE delta.`{table}`")
    run(spark, disks, table, *options)
    run(spark, disks, table, *options)

    found = by_key(disks.cluster)
    assert {key: sorted(numbers) for key, numbers in found.items()} == in_order(90)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE n = 0")
    with pytest.raises(PySparkException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        run(spark, disks, table, *options)

"""The suite for roots: what a cluster needs of every store, on a disk and moto, and with --stores on
versitygw, Azurite, fake-gcs-server and HDFS."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from s3fs import S3FileSystem

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaStorageError, RootAccessDeniedError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata import temporaries
from kafka_on_spark.metadata.temporaries import clean_broker_root
from kafka_on_spark.store.new_roots import check_conditional_puts
from kafka_on_spark.store.root_identity import root_now_ms
from kafka_on_spark.store.roots import filesystem
from kafka_on_spark.store.storage_options import NAMES_VARIABLE
from tests.cluster.disks import FAST, PATIENCE_MS, isr_of, partition_of, values_of
from tests.rigs.rig import CHECKOUT
from tests.rigs.stores.servers import BUCKETS
from tests.store.proxy import Answer
from tests.store.stores import ALWAYS, ELSEWHERE, PART_BYTES, is_put_of, started

# Azure's client hands large bodies to aiohttp as they are.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

ROOT = BUCKETS[0]
RACERS = 8
MIB = 2**20
LONG = (
    "disk-parts",
    "moto-33M",
    "moto-parts",
    "deleted[moto]",
    "moto-429",
    "for_long",
    "cut_off",
    "jumps",
)
WORDS = "reduce your request rate"


@pytest.fixture(scope="module", params=[*ALWAYS, *ELSEWHERE])
def store(request, tmp_path_factory):
    if request.param in ELSEWHERE and not request.config.getoption("--stores"):
        pytest.skip(f"only with --stores: {request.param} is a server of its own")
    with started(request.param, tmp_path_factory.mktemp("store")) as store:
        yield store
    replica_store.cache_clear()


@pytest.fixture(autouse=True)
def _hasty_and_recovered(store, request, monkeypatch):
    is_long = store.name in ALWAYS and any(each in request.node.name for each in LONG)
    if is_long and not request.config.getoption("--long"):
        pytest.skip("only with --long: it takes seconds here")
    monkeypatch.setattr(S3FileSystem, "retries", 3)
    yield
    if store.proxy is not None:
        store.proxy.recover()


@pytest.fixture
def files(store, request):
    """Return a new root's files; a disk has its folder."""
    files = store.files(ROOT, f"r{abs(hash(request.node.nodeid))}")
    if store.name == "disk":
        os.mkdir(files.url)
        os.mkdir(f"{files.url}/folder")
    return files


@pytest.fixture
def path(files):
    return f"{files.url}/folder/file"


@pytest.fixture
def proxy(store):
    if store.proxy is None:
        pytest.skip(f"{store.name} speaks no HTTP: nothing stands between it and its client")
    return store.proxy


def test_of_racing_puts_of_one_file_exactly_one_wins(files):
    check_conditional_puts(files.url, files.options)
    with ThreadPoolExecutor(RACERS) as pool:
        for race in range(5):
            path = f"{files.url}/folder/race-{race}"
            put = lambda racer, path=path: files.write_if_absent(path, b"%d" % racer)  # noqa: E731
            won = list(pool.map(put, range(RACERS)))

            assert sum(won) == 1
            assert files.read(path, 10) == b"%d" % won.index(True)


def test_a_second_put_leaves_the_firsts_bytes_and_its_stamp(files, path):
    assert files.write_if_absent(path, b"first")
    stamp = files.stamps([path])

    assert not files.write_if_absent(path, b"other")
    assert files.read(path, 5) == b"first"
    assert files.stamps([path]) == stamp
    # The same name again, with as many bytes, is another file.
    files.delete_file(path)
    assert files.write_if_absent(path, b"third")
    assert files.stamps([path]) != stamp


@pytest.mark.parametrize(
    "size_bytes", [0, 5, 33 * MIB, PART_BYTES], ids=["empty", "5", "33M", "parts"]
)
def test_a_file_of_any_size_is_written_read_listed_and_deleted(files, path, size_bytes):
    content = os.urandom(size_bytes % MIB or min(size_bytes, MIB)) * max(1, size_bytes // MIB)
    size_bytes = len(content)
    assert (files.read(path, 1), files.size(path), files.stamps([path])) == (None, None, [None])
    assert (files.time_ms(path), files.names(os.path.dirname(path))) == (None, [])
    assert list(files.read_all([path], 1)) == [None]

    files.write(path, content)

    assert files.read(path, size_bytes) == content
    assert list(files.read_all([path, f"{path}-absent"], size_bytes)) == [content, None]
    assert files.size(path) == size_bytes
    [stamp] = files.stamps([path])
    assert stamp == files.stamps([path], in_any_order=True)[0]
    assert files.sizes(os.path.dirname(path)) == {"file": size_bytes}
    assert abs(files.time_ms(path) / 1000 - time.time()) < 600
    if size_bytes:
        end = min(size_bytes, 100)
        assert files.read_end(path, size_bytes, end) == content[-end:]
    for delete in (files.delete_file, files.delete):
        delete(path)
        assert files.read(path, 1) is None


def test_deleting_what_is_gone_deletes_nothing_whose_name_begins_so(store, files, path):
    if store.name == "disk":
        os.mkdir(f"{files.url}/folder-2")
    for each in (path, f"{path}-2", f"{files.url}/folder-2/file"):
        files.write(each, b"x")

    for _ in range(2):
        files.delete(path)
    assert files.names(f"{files.url}/folder") == ["file-2"]
    for _ in range(2):
        files.delete(f"{files.url}/folder")
    assert files.names(files.url) == ["folder-2"]


def test_ten_thousand_files_of_a_folder_are_all_listed_and_deleted(store, files):
    # Azurite needs minutes for them: a page of it has five thousand.
    names = [f"{number:05d}" for number in range(5_100 if store.name == "Azurite" else 10_000)]
    store.fill(f"{files.url}/folder", names)

    assert files.names(f"{files.url}/folder") == names
    files.delete(f"{files.url}/folder")
    assert files.names(f"{files.url}/folder") == []


def lose_answer_of_rename(monkeypatch):
    """Have HDFS' next rename be done, and sent again, since its answer was lost."""
    from hdfs_native import Client

    rename, lost = Client.rename, []

    def rename_twice(*given):
        rename(*given)
        if not lost:
            lost.append(given)
            rename(*given)

    monkeypatch.setattr(Client, "rename", rename_twice)


def test_what_a_killed_writer_left_on_hdfs_is_removed_and_nobody_waits_for_its_lease(
    store, files, path, monkeypatch
):
    if store.name != "HDFS":
        pytest.skip("only HDFS has leases")
    from hdfs_native import WriteOptions

    client = filesystem(files.url, files.options)._client
    place = files.url.removeprefix(store.prefix)
    left = client.create(f"/{place}/_{'a' * 32}.tmp", WriteOptions(create_parent=True))
    left.write(b"half a file")

    assert files.write_if_absent(path, b"whole")
    assert clean_broker_root(files.url, files.options) == 0
    monkeypatch.setattr(temporaries, "AGE_SECONDS_MIN", -60.0)
    assert clean_broker_root(files.url, files.options) == 1
    assert files.names(files.url) == ["folder"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_put_that_is_throttled_once_is_done_once(store, proxy, files, path, status):
    throttle = Answer(is_put_of(path), status, *store.busy(status), count=1)
    proxy.answers.append(throttle)
    proxy.passed.clear()

    told = []
    for _ in range(2):
        try:
            assert files.write_if_absent(path, b"first")
            break
        except KafkaStorageError as error:  # Azure's client does not try again after 429
            told.append(error.message)

    assert not [each for each in told if WORDS not in each]
    assert throttle.count == 0
    assert len(list(filter(is_put_of(path), proxy.passed))) == 1


def test_a_put_whose_answer_is_lost_is_known_by_its_bytes(store, files, path, monkeypatch):
    if store.name == "disk":
        pytest.skip("no answer of a disk is lost")
    if store.proxy is not None:
        store.proxy.answers.append(Answer(is_put_of(path), None, count=1, is_late=True))
    else:
        lose_answer_of_rename(monkeypatch)

    assert files.write_if_absent(path, b"first")
    assert files.read(path, 10) == b"first"
    assert not files.write_if_absent(path, b"other")


def test_a_store_that_throttles_for_long_is_named_with_its_words_and_no_put_is_done(
    store, proxy, files, path
):
    proxy.answers.append(Answer(lambda _: True, 503, *store.busy(503)))

    with pytest.raises(KafkaStorageError, match=WORDS):
        files.write_if_absent(path, b"first")
    with pytest.raises(KafkaStorageError, match=WORDS):
        files.read(path, 10)

    proxy.recover()
    assert files.names(f"{files.url}/folder") == []
    assert files.write_if_absent(path, b"second")


def test_a_put_in_parts_that_is_cut_off_leaves_no_object(proxy, files, path):
    content = os.urandom(MIB) * (PART_BYTES // MIB)
    puts = is_put_of(path)
    sent = []
    # The first part arrives, and nothing after it.
    proxy.answers.append(Answer(lambda request: puts(request) and sent.append(request) is None and len(sent) > 2, None))  # fmt: skip

    with pytest.raises(KafkaStorageError):
        files.write(path, content)

    proxy.recover()
    assert files.read(path, 10) is None
    assert files.names(f"{files.url}/folder") == []
    files.write(path, content)
    assert files.size(path) == len(content)


@pytest.fixture
def create(store, request, monkeypatch):
    """Return what makes a cluster with a bucket for each of three brokers, and one for metadata."""
    made = []
    name = f"c{abs(hash(request.node.nodeid))}"

    def create():
        roots = {number: store.url(BUCKETS[number - 1], name) for number in (1, 2, 3)}
        configs = FAST | {"min.insync.replicas": "2"}
        made.append(
            Cluster.create(store.url(BUCKETS[3], name), roots, configs=configs, storage_options=store.given)
        )  # fmt: skip
        return made[-1]

    yield create
    for each in made:
        each.close()


def append(cluster, *values):
    cluster.append("topic", [("k", value) for value in values], timeout_ms=PATIENCE_MS)


def heal(cluster):
    for _ in range(20):
        cluster.run_controller()
        cluster.replicate()
        if isr_of(cluster, "topic") == [1, 2, 3]:
            return
    raise AssertionError(isr_of(cluster, "topic"))


def test_a_cluster_loses_a_bucket_elects_another_leader_and_gets_the_bucket_back(store, create):
    cluster = create()
    cluster.create_topic("topic", replica_assignment={0: [1, 2, 3]})
    append(cluster, "0", "1")

    store.take_away(BUCKETS[0])
    append(cluster, "2")
    assert partition_of(cluster, "topic").leader != 1
    assert 1 not in isr_of(cluster, "topic")
    assert values_of(cluster, "topic") == [b"0", b"1", b"2"]

    store.give_back(BUCKETS[0])
    heal(cluster)
    append(cluster, "3")
    with Cluster.open(cluster.root, storage_options=store.given) as again:
        assert values_of(again, "topic") == [b"0", b"1", b"2", b"3"]
        assert again.fsck().findings == ()


def test_keys_that_end_are_one_sentence_and_nothing_is_lost_until_they_are_back(
    store, proxy, create
):
    cluster = create()
    cluster.create_topic("topic", replica_assignment={0: [1, 2, 3]})
    append(cluster, "0")
    before = cluster.history("topic")
    if store.spoils is None:
        proxy.answers.append(Answer(lambda _: True, 401, *store.busy(401)))
    proxy.spoils = store.spoils

    with pytest.raises(RootAccessDeniedError) as denied:
        append(cluster, "1")
    assert "\n" not in denied.value.message

    proxy.recover()
    assert cluster.history("topic") == before  # it counts against no broker
    append(cluster, "2")
    assert values_of(cluster, "topic") == [b"0", b"2"]
    assert cluster.image.eligible_brokers() == {1, 2, 3}
    assert cluster.fsck().findings == ()


def test_a_store_whose_clock_jumps_by_hours_loses_nothing(store, proxy, create):
    cluster = create()
    broker = cluster.image.brokers[1]
    cluster.create_topic("topic", replica_assignment={0: [1, 2, 3]})
    expected = []
    for hours in (0, 7, -7):
        proxy.hours = hours
        expected.append(b"%d" % hours)
        append(cluster, str(hours))
        cluster.run_controller()
        now_s = root_now_ms(broker.root, broker.directory_id, store.options) / 1000
        assert abs(now_s - time.time() - 3600 * hours) < 600
        replica_store.cache_clear()
        with Cluster.open(cluster.root, storage_options=store.given) as again:
            assert values_of(again, "topic") == expected
    assert isr_of(cluster, "topic") == [1, 2, 3]
    assert cluster.fsck().findings == ()


@pytest.mark.long
def test_the_quickstart_ends_with_0(store, tmp_path, monkeypatch):
    if store.name not in ("versitygw", "Azurite", "fake-gcs-server"):
        pytest.skip(f"{store.name}: other tests run the quickstart on a disk and on moto")
    bucket = f"{store.prefix}{ROOT}"
    monkeypatch.setenv(NAMES_VARIABLE, f"{bucket}=env:QUICK")
    for name, text in store.given.items():
        monkeypatch.setenv(f"QUICK_{name.upper()}", text)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    output = tmp_path / "output"
    with output.open("wb") as file:
        code = subprocess.run(
            [sys.executable, "jobs/quickstart.py", "--dir", tmp_path / "run", "--rows", "2000",
             "--partitions", "4", "--root", f"{bucket}/quick"],
            cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=1800, check=False,
        ).returncode  # fmt: skip

    said = output.read_text("utf-8", errors="replace")
    assert code == 0, said
    assert "no record was lost or doubled" in said

"""Three voters of a metadata log that lived through a failover, each fault planted in one of them."""

import shutil
from dataclasses import replace

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.metadata_files import decode_file, encode_file
from kafka_on_spark.metadata.metadata_root import identity_of
from kafka_on_spark.metadata.quorum.voter_log import VoterLog
from kafka_on_spark.metadata.records import Stamp
from kafka_on_spark.store.delta.checkpoints import write_checkpoint
from kafka_on_spark.store.delta.delta_files import TableState
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.disks import FAST, records
from tests.cluster.folders import quick_folder
from tests.cluster.voters import bring_up
from tests.forging import flip_a_bit
from tests.store.damages import halve

OPTIONS = StorageOptions()
NAMES = ("m1", "m2", "m3")


@pytest.fixture(scope="module")
def lived():
    with quick_folder() as folder:
        base = folder / "cluster"
        base.mkdir()
        live(base)
        shutil.copytree(base, folder / "copy")
        yield base


def live(base):
    """Voter 1 leads, is away, and comes back behind the next leader."""
    roots = [base / name for name in NAMES]
    with Cluster.create(roots, {1: base / "1"}, configs=FAST) as cluster:
        cluster.create_topic("orders")
        cluster.append("orders", records(b"a"))
        roots[0].rename(base / "away")
        cluster.append("orders", records(b"b"))
        (base / "away").rename(roots[0])
        cluster.append("orders", records(b"c"))
        cluster.append("orders", records(b"d"))
        assert cluster.describe_quorum().leader.node_id != 1
        bring_up(cluster)


@pytest.fixture
def base(lived):
    shutil.rmtree(lived)
    shutil.copytree(lived.parent / "copy", lived)
    replica_store.cache_clear()
    return lived


def checked(base, *names, deep=True):
    return check_cluster([base / name for name in names or NAMES], deep=deep)


def voter_log(base, name):
    root = str(base / name)
    return VoterLog(root, identity_of(root, OPTIONS), OPTIONS)


def leader_of(base):
    tables = {name: voter_log(base, name).load() for name in NAMES}
    (leader,) = [name for name, table in tables.items() if table.leads and table.quorum_epoch > 1]
    return leader, [name for name in NAMES if name != leader]


def table_folder(base, name):
    (folder,) = (base / name).glob("__cluster_metadata-0-*")
    return folder


def ids_of(report):
    return {each.invariant for each in report.findings}


@pytest.mark.parametrize("deep", [True, False])
def test_voters_that_lived_through_a_failover_are_clean_from_any_of_them(base, deep):
    for name in NAMES:
        report = checked(base, name, deep=deep)

        assert report.findings == ()
        read = [each for each in report.coverage if each.table.partition is None]
        assert len(read) == 3
        assert any("Q7 in part" in each for each in report.not_checked) != deep


def test_voters_that_a_damaged_table_names_are_checked(base):
    _, (behind, _) = leader_of(base)
    log = voter_log(base, behind)
    log.load()
    delta = log._delta
    write_checkpoint(delta._files, delta.uri, delta._content(), 0)
    folder = table_folder(base, behind) / "_delta_log"
    (folder / f"{delta.version:020d}.json").unlink()

    report = checked(base, behind)

    assert ids_of(report) == {"I15"}
    assert len([each for each in report.coverage if each.table.partition is None]) == 3


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("has_next", [True, False])
def test_a_voters_history_begins_at_the_first_checkpoint_that_can_be_read(base, has_next, deep):
    """Nothing is said of the commits before it, or where there is none, of the voter's log."""
    _, (other, _) = leader_of(base)
    log = voter_log(base, other)
    files, state, folder = RootFiles(log.root, OPTIONS), TableState(), table_folder(base, other)
    oldest, following = 4, 6
    for step in archive_steps(base, other)[: following + 1]:
        state.apply(step)
        if step.version == oldest or (step.version == following and has_next):
            write_checkpoint(files, log.uri, state, 0)
    halve(folder / "_delta_log" / f"{oldest:020d}.checkpoint.parquet")
    for version in range(oldest):
        (folder / "_delta_log" / f"{version:020d}.json").unlink()

    report = checked(base, deep=deep)

    (damage,) = [each for each in report.findings if each.invariant is not None]
    assert (damage.invariant, damage.place.version) == ("I15", oldest)
    read = [each for each in report.coverage if each.table.voter_id == damage.place.voter_id]
    assert [each.first_version for each in read] == ([following] if has_next else [])


def test_a_leader_that_is_away_leaves_open_what_is_committed(base):
    leader, others = leader_of(base)
    shutil.rmtree(base / leader)

    report = checked(base, *others)

    assert ids_of(report) == {None}
    assert any("leader of the metadata quorum" in each.sentence for each in report.findings)


def test_a_root_that_was_emptied_is_not_called_a_voter(base):
    _, (other, _) = leader_of(base)
    shutil.rmtree(base / other)
    Cluster.create(base / other, {9: base / "9"}, configs=FAST).close()

    report = checked(base, leader_of_rest(base, other))

    (finding,) = report.findings
    assert (finding.invariant, finding.place.voter_id) == (None, NAMES.index(other) + 1)
    assert "is not voter" in finding.sentence


def leader_of_rest(base, other):
    return next(name for name in NAMES if name != other)


def one_of(report, invariant):
    found = [each for each in report.findings if each.invariant == invariant]
    assert found, report.findings
    return found[0]


def archive_steps(base, name):
    uri = voter_log(base, name).uri
    return list(table_steps(RootFiles(str(base / name), OPTIONS), uri, has_all_checkpoints=False))


def test_q7_other_records_under_the_same_write(base):
    """Only the bytes tell, so only a deep check does."""
    _, (other, _) = leader_of(base)
    file = min(table_folder(base, other).glob("*.parquet"))
    (found,) = decode_file(file.read_bytes(), file.name)
    stamp = replace(found.stamp, time_ms=found.stamp.time_ms + 1000)
    content = encode_file(found.records, stamp, found.base_offset)
    file.write_bytes(content.to_pybytes())

    finding = one_of(checked(base), "Q7")

    assert "has other records than on voter" in finding.sentence
    assert finding.place.voter_id == NAMES.index(other) + 1


def test_i15_a_damaged_file_on_a_voter_that_does_not_lead(base):
    _, (other, _) = leader_of(base)
    flip_a_bit(min(table_folder(base, other).glob("*.parquet")))

    finding = one_of(checked(base), "I15")

    assert finding.place.voter_id == NAMES.index(other) + 1


def test_i15_a_snapshot_that_says_another_epoch(base):
    _, (other, _) = leader_of(base)
    with Cluster.open([base / name for name in NAMES]) as cluster:
        image = cluster.image
        log = cluster._metadata.log
        log.write_snapshot(snapshot_records(image), Stamp(time_ms=image.time_ms), image.offset)
    (snapshot,) = (base / other / "snapshots").iterdir()
    snapshot.rename(snapshot.with_name(f"{image.offset:020d}-{9:010d}.parquet"))

    finding = one_of(checked(base), "I15")

    assert "its name says epoch 0000000009, the log has epoch" in finding.sentence
    assert finding.place.voter_id == NAMES.index(other) + 1

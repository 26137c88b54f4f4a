"""What can't be read is a finding with a sentence; the rest is checked all the same."""

import json
import random
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kafka_on_spark.base.ids import NO_CHAIN
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.records import AdminRequestRecord, Stamp
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import records
from tests.forging import flip_a_bit
from tests.fsck.lives import LOG_START, TOPIC
from tests.fsck.plants import changed, commit_records, found, registration
from tests.store.damages import empty, halve


def test_an_absent_root_is_one_finding_and_the_others_are_checked(life):
    life.disks.take_away(1)

    report = life.fsck()

    [finding] = report.findings
    assert (finding.invariant, finding.place.broker_id) == (None, 1)
    assert finding.sentence.startswith("the broker's replicas could not be checked: ")
    assert [str(each.table) for each in report.coverage] == [
        "metadata log",
        f"{TOPIC}-0, broker 2",
        f"{TOPIC}-0, broker 3",
    ]
    assert not life.disks.root(1).exists()
    life.disks.give_back(1)


# fmt: off
HARM = [
    pytest.param(lambda path: path.unlink(),                               "is missing",     id="missing"),
    pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-40]),   "can't be read",  id="cut short"),
    pytest.param(lambda path: path.write_bytes(b'{"add": {"path": 1}}'),   "can't be read",  id="no add action"),
    pytest.param(lambda path: path.write_bytes(b"\xff\xfe\x00"),           "can't be read",  id="no text"),
    pytest.param(lambda path: path.write_bytes(b"[1, 2]"),                 "can't be read",  id="no object"),
    pytest.param(lambda path: path.write_bytes(b"[" * 100_000),            "can't be read",  id="nested brackets"),
    pytest.param(lambda path: path.write_bytes(b'{"a": "\\ud800"}'),       "can't be read",  id="half a character"),
    pytest.param(lambda path: path.write_bytes(b'{"a": 1e999}'),           "can't be read",  id="no number"),
    pytest.param(lambda path: path.write_bytes(bytes(100)),                "can't be read",  id="zeros"),
]
# fmt: on

# All of it is done to a commit of a replica; to others, in a run that is not long, the first three.
SOME_HARM = [
    *HARM[:3],
    *(pytest.param(*each.values, id=each.id, marks=pytest.mark.long) for each in HARM[3:]),
]


@pytest.mark.parametrize("harm, words", HARM)
def test_a_damaged_commit_of_a_replica_is_found_and_the_history_goes_on_at_a_checkpoint(
    life, follower, harm, words
):
    version = 3
    harm(follower.commit_file(version))

    report = life.fsck()

    finding = found(report, "I15", follower, version=version)
    assert words in finding.sentence
    assert len(report.findings) == 1


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("harm, words", SOME_HARM)
def test_a_damaged_last_commit_is_found_where_a_checkpoint_has_its_state(
    life, follower, harm, words, is_cleaned
):
    """Processes go on from the checkpoint, so nothing is lost; the file is damaged all the same."""
    DeltaTable(str(follower.folder)).create_checkpoint()
    version = follower.version
    if is_cleaned:
        log = follower.folder / "_delta_log"
        for path in (*log.glob("0*.json"), *log.glob("0*.checkpoint.parquet")):
            if int(path.name[:20]) < version:
                path.unlink()
    harm(follower.commit_file(version))

    report = life.fsck()

    assert words in found(report, "I15", follower, version=version).sentence
    assert len(report.findings) == 1


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("damage", [halve, empty])
def test_a_damaged_checkpoint_is_found_and_the_commits_still_tell_all(life, follower, damage, deep):
    [path] = (follower.folder / "_delta_log").glob("*.checkpoint.parquet")
    damage(path)

    report = life.fsck(deep=deep)

    [finding] = report.findings
    assert finding == found(report, "I15", follower, version=int(path.name[:20]))
    assert "can't be read" in finding.sentence


def test_a_checkpoint_that_says_another_state_than_the_commits_is_found(life, follower):
    # What a reader sees who starts from it is not what was committed.
    log = follower.folder / "_delta_log"
    [path] = log.glob("*.checkpoint.parquet")
    version = int(path.name[:20])

    def grow(action):
        if action.get("txn", {}).get("appId") == "log-end-offset":
            action["txn"]["version"] += 1

    follower.edit_commit(version, grow)

    finding = found(life.fsck(), "I15", follower, version=version)

    assert finding.sentence.endswith("says another state than the commits up to it")


def metadata_log(life):
    return life.metadata_table / "_delta_log"


@pytest.mark.parametrize("harm, words", SOME_HARM)
def test_a_damaged_commit_of_the_metadata_log_is_found_and_the_tables_are_checked(
    life, harm, words
):
    path = metadata_log(life) / f"{5:020d}.json"
    harm(path)

    report = life.fsck()

    finding = found(report, "I15", version=5)
    assert words in finding.sentence
    assert {each.place.partition for each in report.findings} == {None}
    assert len(report.coverage) == 4


def active_files(life):
    table = DeltaTable(life.metadata_table)
    return [Path(each) for each in sorted(table.file_uris())]


def test_a_damaged_file_of_the_metadata_log_is_found_and_the_tables_are_checked(life):
    path = active_files(life)[-2]
    flip_a_bit(path)

    report = life.fsck()

    assert found(report, "I15", path=path.name).sentence
    assert len(report.coverage) == 4


def test_a_metadata_log_that_loses_its_newest_commits_has_gone_back(life):
    # Everything since the failover is gone: tables know leaderships that it does not.
    log = metadata_log(life)
    for path in sorted(log.glob("*.json"))[11:]:
        path.unlink()
    for path in (*log.glob("*.checkpoint.parquet"), log / "_last_checkpoint"):
        path.unlink()

    report = life.fsck()

    assert found(report, "I5").sentence.endswith("the metadata went back")


def write_snapshot(life, edit=lambda text: text):
    image = life.disks.cluster.image
    log = DeltaMetadataLog(str(life.disks.metadata_root), StorageOptions(None))
    log.write_snapshot(edit(snapshot_records(image)), Stamp(time_ms=1), image.offset)
    [path] = (life.disks.metadata_root / "snapshots").glob("*.parquet")
    return path


def test_a_snapshot_that_says_what_the_log_says_is_clean(life):
    write_snapshot(life)

    assert life.fsck().is_clean


def test_a_snapshot_after_an_unclean_election_that_cut_a_log_to_0_is_clean(life):
    register = registration(life)
    change = changed(
        register,
        life,
        leader=register.leader,
        high_watermark=LOG_START,
        high_watermark_epoch=None,
        high_watermark_chain=NO_CHAIN,
        unclean_generation=1,
    )
    commit_records(life, change)
    write_snapshot(life)

    assert not [each for each in life.fsck(deep=False).findings if "snapshot" in each.sentence]


def test_a_damaged_snapshot_is_found(life):
    path = write_snapshot(life)
    flip_a_bit(path)

    found(life.fsck(), "I15", path=path.name)


def test_a_snapshot_that_says_something_else_than_the_log_is_found(life):
    path = write_snapshot(life)
    life.disks.cluster.append(TOPIC, records(b"later"))
    image = life.disks.cluster.image
    later = path.with_name(f"{image.offset:020d}-{1:010d}.parquet")
    log = DeltaMetadataLog(str(life.disks.metadata_root), StorageOptions(None))
    old = [
        each for each in snapshot_records(life.disks.cluster.image) if "Partition" not in repr(each)
    ]
    log.write_snapshot(old, Stamp(time_ms=1), image.offset)

    finding = found(life.fsck(), "I15", path=later.name)

    assert finding.sentence.endswith(f"partition {TOPIC}-0 is not in it as in the log")


def test_nothing_in_a_log_makes_the_check_fail(request, life, follower):
    """Whatever a commit says: a finding or none, and the other tables are checked."""
    dice = random.Random(4)
    logs = {
        follower.broker_id: follower.folder / "_delta_log",
        None: metadata_log(life),
    }
    found_count, count = 0, 60 if request.config.getoption("--long") else 24
    for number in range(count):
        broker_id = follower.broker_id if number % 2 else None
        path = dice.choice(sorted(logs[broker_id].glob("*.json")))
        before = path.read_bytes()
        path.write_bytes(garbled(before, dice))
        report = life.fsck(deep=False)
        path.write_bytes(before)
        found_count += not report.is_clean
        checked = {each.table.broker_id for each in report.coverage}
        assert broker_id is None or checked == {None, 1, 2, 3}
    assert found_count > count / 3
    assert life.fsck(deep=False).is_clean


def garbled(content, dice):
    """Return a commit with one value of one action changed into another kind of value."""
    actions = [json.loads(line) for line in content.splitlines()]
    bodies = [body for action in actions for name, body in action.items() if name != "commitInfo"]
    body = dice.choice(bodies)
    while True:
        name = dice.choice(sorted(body))
        if isinstance(body[name], dict) and body[name] and dice.random() < 0.9:
            body = body[name]
            continue
        body[name] = dice.choice([None, -1, 7, "x", [], {}, 1.5, "99", "{}", "[]"])
        break
    return "\n".join(map(json.dumps, actions)).encode()


def test_a_snapshot_above_the_logs_end_is_told_from_a_damaged_one(life):
    """One of a cluster that was at this root before, which a frozen process has written late."""
    path = write_snapshot(life)
    end = life.disks.cluster.image.offset
    late = path.with_name(path.name.replace(f"{end:020d}", f"{end + 100:020d}"))
    path.rename(late)

    [finding] = life.fsck().findings

    assert finding == found(life.fsck(), "I15", path=late.name)
    assert finding.sentence.endswith("it ends above the log's end, and no process reads it")
    late.unlink()


def test_another_disk_in_the_place_of_a_brokers_is_absent(life):
    life.disks.take_away(1)
    shutil.copytree(life.disks.root(2), life.disks.root(1))

    report = life.fsck()

    [finding] = report.findings
    assert finding.place.broker_id == 1
    assert "is not the disk it was" in finding.sentence
    shutil.rmtree(life.disks.root(1))
    life.disks.give_back(1)


def test_a_hint_at_a_checkpoint_that_is_not_there_is_found(life, follower):
    [path] = (follower.folder / "_delta_log").glob("*.checkpoint.parquet")
    path.unlink()

    finding = found(life.fsck(), "I15", follower, version=int(path.name[:20]))

    assert finding.sentence.endswith("which is not there")


def test_a_snapshot_that_lost_a_pending_request_is_found(life):
    commit_records(life, AdminRequestRecord(request='{"id": "1"}'))
    path = write_snapshot(
        life, lambda records: [each for each in records if type(each) is not AdminRequestRecord]
    )

    [finding] = life.fsck().findings

    assert path.name in str(finding)
    assert "0 requests wait in it, other than the 1 that wait" in finding.sentence

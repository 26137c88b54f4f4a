"""A voter's table says the headers of its log without a file being read, and what it can't be."""

import json
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_metadata_log
from kafka_on_spark.metadata.metadata_files import (
    LogFile,
    counters_of,
    entry_of,
    log_files,
    raft_log_of,
    table_of,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    TableChange,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    runs_of,
)
from kafka_on_spark.store.delta.delta_files import commit_step, encode_commit
from kafka_on_spark.store.roots import StorageOptions

OPTIONS = StorageOptions()
DIRECTORY = "d" * 32
VOTERS = VoterSet.of(
    Voter(VoterKey(node, DIRECTORY), root) for node, root in enumerate(["/a", "s3://b:9/c d"])
)
BATCHES = (
    RaftBatch(0, 1, 0, "first", BatchKind.DECISION, VOTERS),
    RaftBatch(1, 2, 1, "no-op", BatchKind.NO_OP),
    RaftBatch(2, 5, 1, "a"),
    RaftBatch(5, 6, 1, "b"),
    RaftBatch(6, 7, 4, "no-op", BatchKind.NO_OP),
    RaftBatch(7, 9, 4, "c"),
)


def read_back(*files):
    commit = encode_commit(
        write_id="w",
        operation="append",
        now_ms=1,
        adds=map(entry_of, files),
        counters={},
    )
    return log_files(commit_step(commit, 1, "").adds)


def file(*batches):
    path = f"{batches[0].base_offset:020d}-{'0' * 32}.parquet"
    size = batches[-1].end_offset - batches[0].base_offset
    return LogFile(batches[0].base_offset, size, path, 10, 5, batches)


def test_the_headers_of_files_are_read_back():
    files = [file(each) for each in BATCHES]

    assert raft_log_of(read_back(*files)).batches == BATCHES


def test_the_headers_of_a_merged_file_are_its_runs():
    runs = runs_of(BATCHES[:5])

    log = raft_log_of(read_back(file(*runs), file(BATCHES[5])))

    assert log.batches == (*runs, BATCHES[5])
    assert log.voters == VOTERS


def test_a_file_with_other_headers_than_rows_is_damage():
    with pytest.raises(CorruptLogError, match="other headers"):
        LogFile(0, 3, file(BATCHES[0]).path, 10, 5, BATCHES[:2])


def test_counters_are_read_back_and_must_not_contradict_the_log():
    log = raft_log_of(read_back(*(file(each) for each in BATCHES)))
    counters = {"quorum-epoch": 4, f"vote/1:{DIRECTORY}": 4, f"leader/0:{DIRECTORY}": 1}

    table = table_of(VoterKey(0, DIRECTORY), counters, log, 7)

    assert (table.vote, table.leader) == (VoterKey(1, DIRECTORY), None)
    with pytest.raises(CorruptLogError, match="can't be"):
        table_of(VoterKey(0, DIRECTORY), {"quorum-epoch": 3}, log, 7)
    with pytest.raises(CorruptLogError, match="can't be"):
        table_of(VoterKey(0, DIRECTORY), {"quorum-epoch": 9, "vote/none": 9}, log, 7)


def test_a_commit_sets_the_counters_that_it_changes():
    voter = VoterTable(VoterKey(0, DIRECTORY))
    change = TableChange(quorum_epoch=3, vote=VoterKey(1, DIRECTORY))

    assert counters_of(change, voter.apply(change)) == {
        "log-end-offset": 0,
        "quorum-epoch": 3,
        f"vote/1:{DIRECTORY}": 3,
    }


@pytest.mark.parametrize(
    "version, advice",
    [("1", "create it again"), ("2", "create it again"), ("4", "use a newer kafka_on_spark")],
)
def test_another_format_is_refused_in_one_sentence(tmp_path, version, advice):
    uri = create_metadata_log(str(tmp_path), OPTIONS, "a-cluster").uri
    commit = Path(uri, "_delta_log", f"{0:020d}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["kos.format.version"] = version
    commit.write_text("\n".join(map(json.dumps, lines)))

    with pytest.raises(CorruptLogError) as refused:
        DeltaMetadataLog(str(tmp_path), OPTIONS).check()

    assert refused.value.message.startswith(f"the cluster at {tmp_path} has format {version}, this")
    assert advice in refused.value.message

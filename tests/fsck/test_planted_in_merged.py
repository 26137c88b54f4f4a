"""One fault an invariant, planted in merged segments of one replica: found by its id, there alone."""

import pytest

from kafka_on_spark.log.producer_files import write_producers
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.fsck.plants import Plant, flaw, found
from tests.fsck.upkept import (
    APPENDS,
    FAN_IN,
    LOG_START,
    MERGED,
    counters_of,
    rewritten,
    with_digest,
)


@pytest.fixture(params=[1, 2], ids=["leader", "follower"])
def plant(upkept, request):
    return Plant(upkept, request.param)


@pytest.fixture
def follower(upkept):
    return Plant(upkept, 2)


def faults(report, plant):
    """Return which invariants are violated; all of it on the planted replica."""
    assert {each.place.broker_id for each in report.findings} <= {plant.broker_id}
    assert {each.place.partition for each in report.findings} <= {(plant.topic, 0)}
    return report.invariants


def check(upkept, expected):
    report = upkept.fsck()
    expected.check(report)
    faults(report, expected.plant)


def test_logs_that_were_merged_compacted_and_cut_at_the_front_are_clean(upkept):
    report = upkept.fsck()

    assert report.findings == ()
    assert report.not_checked == ()
    values = rewritten(Plant(upkept, 1)).add["partitionValues"]
    assert (int(values["base_offset"]), int(values["end_offset"])) == MERGED


def test_a_check_that_is_not_deep_says_what_it_did_not_look_at(upkept):
    report = upkept.fsck(deep=False)

    assert report.is_clean
    assert "what compacted ones keep" in report.not_checked[0]
    assert report.as_dict()["not_checked"] == list(report.not_checked)


def test_i1_a_record_that_is_another_in_a_file_whose_digests_all_fit(upkept, plant):
    merged = rewritten(plant)
    rows = merged.rows()
    rows[7]["value"] = b"another"
    merged.rewrite(rows)

    report = upkept.fsck()

    count = 2 * APPENDS - LOG_START
    assert found(report, "I1", plant, offset=LOG_START).sentence == (
        f"the replica's files hold {count} records in [{LOG_START}, {count + LOG_START}), and not"
        f" those that other replicas hold; most replicas have it as brokers"
        f" {', '.join(str(each) for each in (1, 2, 3) if each != plant.broker_id)}"
    )
    assert faults(report, plant) == {"I1"}
    assert upkept.fsck(deep=False).is_clean


def test_i25_a_record_that_a_merge_has_left_out(upkept, follower):
    merged = rewritten(follower)
    rows = merged.rows()
    del rows[7]
    merged.rewrite(rows)

    words = "a merged segment has 15 records, and 16 went"
    check(upkept, flaw("I25", follower, words, only={"I1", "I25"}, version=merged.version))


def test_i15_records_that_stand_at_other_offsets_than_the_segment_covers(upkept, follower):
    merged = rewritten(follower)
    rows = merged.rows()
    rows[7]["offset_delta"] = rows[8]["offset_delta"]
    merged.rewrite(rows)

    check(upkept, flaw("I15", follower, only={"I15"}, path=merged.add["path"]))


def test_i15_a_content_digest_that_is_not_that_of_the_records(upkept, follower):
    merged = rewritten(follower)
    merged.edit_header(content_digest="7")

    words = "have not the content digest in its header"
    check(upkept, flaw("I15", follower, words, only={"I15"}, path=merged.add["path"]))


@pytest.mark.parametrize("kept", ["another digest", "one less", "none"])
def test_i25_borders_in_the_file_that_the_log_never_had(upkept, follower, kept):
    merged = rewritten(follower)
    borders = merged.borders()
    assert len(borders) == FAN_IN
    wrong = {
        "another digest": [*borders[:5], with_digest(borders[5], "ab" * 16), *borders[6:]],
        "one less": [*borders[:5], *borders[6:]],
        "none": [],
    }
    merged.rewrite(borders=wrong[kept])

    report = upkept.fsck()

    finding = found(report, "I25", follower, path=merged.add["path"], offset=MERGED[0])
    assert finding.sentence.endswith("keeps other borders than the log had there")
    assert faults(report, follower) == {"I25"}


def test_i15_a_last_border_that_is_not_the_end_of_the_segment(upkept, follower):
    merged = rewritten(follower)
    borders = merged.borders()
    merged.rewrite(borders=[*borders[:-1], with_digest(borders[-1], "ab" * 16)])

    report = upkept.fsck()

    assert faults(report, follower) == {"I15"}


# fmt: off
COVERAGES = [
    pytest.param({"end_offset": "19"},            {"I15", "I25"}, id="an-overlap"),
    pytest.param({"leader_epoch": "1"},           {"I25"},        id="two-leaderships"),
    pytest.param({"chain_digest": "ab" * 16},     {"I15", "I25"}, id="another-chain-at-its-end"),
]
# fmt: on


@pytest.mark.parametrize("header, invariants", COVERAGES)
def test_i25_a_merged_segment_that_covers_something_else_than_went_into_it(
    upkept, follower, header, invariants
):
    merged = rewritten(follower)
    merged.edit_header(**header)

    report = upkept.fsck()

    finding = found(report, "I25", follower, version=merged.version)
    assert "took the place of [2, 18)" in finding.sentence
    assert faults(report, follower) == invariants
    assert faults(upkept.fsck(deep=False), follower) == {"I25"}


def test_i26_a_merged_segment_that_is_named_by_another_leadership(upkept, follower):
    merged = rewritten(follower)
    merged.rename("7-" + merged.add["path"].split("-", 1)[1])

    check(upkept, flaw("I26", follower, only={"I26"}, version=merged.version))


@pytest.mark.parametrize("damage", ["gone", "damaged", "of another number", "older"])
def test_i15_a_producer_state_that_is_not_the_one_that_counts(upkept, follower, damage):
    number = counters_of(follower)["producer-state"]
    name = f"producers-{number:020d}.parquet"
    path = follower.folder / name
    if damage == "gone":
        path.unlink()
    elif damage == "damaged":
        path.write_bytes(path.read_bytes()[:-8])
    elif damage == "older":  # put there by a writer that slept, once the right one was gone
        uuid, folder = follower.state.identity.replica_uuid, str(follower.folder)
        path.unlink()
        write_producers(RootFiles(folder, StorageOptions()), folder, uuid, {}, above=number - 1)
        assert path.exists()
    else:
        name = f"producers-{number + 1:020d}.parquet"
        path.rename(path.with_name(name))
        follower.commit("append_fetched", producer_state=number + 1)

    report = upkept.fsck()

    found(report, "I15", follower, path=name)
    assert faults(report, follower) == {"I15"}


def test_i16_a_log_start_that_moves_without_the_files_below_it(upkept, follower):
    version = follower.commit("advance_log_start", log_start_offset=22)

    report = upkept.fsck()

    sentence = found(report, "I16", follower, version=version, offset=2).sentence
    assert sentence == "the batch [2, 4) is kept, and lies below the log start 22"
    assert faults(report, follower) == {"I16"}

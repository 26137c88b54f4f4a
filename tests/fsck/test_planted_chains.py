"""Headers of one replica changed in its commits: the replica is named, and no other."""

import pytest

from tests import forging
from tests.fsck.plants import Plant, found, registration

MARK = "registered one"
LONG = pytest.mark.long


def with_header(name, value):
    def edit(action):
        action["add"]["partitionValues"][name] = value

    return edit


def with_time(action):
    action["add"]["modificationTime"] += 1


def with_another_file(action):
    epoch, uuid, _ = action["add"]["path"].split("-")
    action["add"]["path"] = f"{epoch}-{uuid}-{'ab' * 16}.parquet"


CHANGES = [
    pytest.param(with_header("partition_count", "7"), id="partition-count"),
    pytest.param(with_header("sequence", "7000"), id="sequence"),
    pytest.param(with_header("payload_digest", "7"), id="payload-digest"),
    pytest.param(with_header("timestamp_type", "1"), id="timestamp-type"),
    pytest.param(with_header("chain_digest", "ab" * 16), id="the-digest-itself"),
    pytest.param(with_time, id="append-time"),
    pytest.param(with_another_file, id="another-file"),
]


def brokers_found(report):
    return {each.place.broker_id for each in report.findings}


def rechain(plant, before):
    """Make a log's digests compute again; `before`: the log before it was changed."""
    forging.rechain(plant.folder, {before.batches[0].base_offset: before.chain_before})


def change_last_batch(plant, change):
    """Change the commit of the last committed batch; return the log before it."""
    state = plant.state

    def edit(action):
        values = action.get("add", {}).get("partitionValues", {})
        if values.get("batch_base_offset") == str(state.batches[-1].base_offset):
            change(action)

    for version in range(plant.version - 1, plant.version + 1):
        plant.edit_commit(version, edit)
    return state


def by_role(changes):
    """Return changes of either role's header: of the leader's only the first, and in a long run all."""
    return [
        pytest.param(role, *change.values, id=f"{role}-{change.id}", marks=[LONG] * is_long)
        for role in ("leader", "follower")
        for number, change in enumerate(changes)
        for is_long in [role == "leader" and number > 0]
    ]


@pytest.mark.parametrize("role, change", by_role(CHANGES))
def test_a_header_that_was_changed_names_its_replica_and_no_other(life, request, role, change):
    plant = request.getfixturevalue(role)
    change_last_batch(plant, change)

    report = life.fsck()

    assert "I15" in report.invariants
    assert brokers_found(report) == {plant.broker_id}


@pytest.mark.parametrize("role, change", by_role(CHANGES[:4] + CHANGES[5:6]))
def test_a_log_that_was_forged_to_compute_again_is_found_by_the_register(
    life, request, role, change
):
    plant = request.getfixturevalue(role)
    before = change_last_batch(plant, change)
    rechain(plant, before)

    report = life.fsck()

    assert MARK in found(report, "I23", plant).sentence
    assert brokers_found(report) == {plant.broker_id}


def test_a_counter_that_says_another_chain_before_the_log_is_found(life, leader):
    version = leader.commit("nothing", chain_high=1, chain_low=2)

    assert "chain digest before" in found(life.fsck(), "I15", leader, version=version).sentence


def test_a_majority_of_forged_replicas_is_named_too(life, leader):
    """Two of three have the same forged records: they are the guilty ones."""
    forged = [each for each in registration(life).replicas if each != leader.broker_id]
    for broker_id in forged:
        plant = Plant(life, broker_id)
        before = change_last_batch(plant, with_header("partition_count", "7"))
        rechain(plant, before)

    report = life.fsck()

    assert brokers_found(report) == set(forged)

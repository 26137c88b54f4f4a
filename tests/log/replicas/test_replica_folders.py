"""Folders of replicas on a root: found by their names, removed with nothing beside them."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.replica_tables import remove_table, tables_on
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions

OPTIONS = StorageOptions()
TOPIC_ID, OTHER_ID = "a" * 32, "b" * 32
UUIDS = ["1" * 32, "2" * 32, "3" * 32]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    return folder, prepare_root(str(folder), "a-cluster", BrokerId(1), OPTIONS).directory_id


@pytest.fixture
def folders(root):
    """Two tables of one topic, one of another, and folders that are no tables."""
    folder, _ = root
    paths = [
        folder / f"my-topic-{TOPIC_ID}/0-{UUIDS[0]}",
        folder / f"my-topic-{TOPIC_ID}/1-{UUIDS[1]}",
        folder / f"my-topic-{OTHER_ID}/0-{UUIDS[2]}",
    ]
    for path in paths:
        (path / "_delta_log").mkdir(parents=True, exist_ok=True)
        (path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (folder / f"my-topic-{OTHER_ID}/notes").mkdir(exist_ok=True)
    (folder / "notes").mkdir(exist_ok=True)
    return paths


def found(root, topic_ids=None):
    return list(tables_on(BrokerId(1), str(root[0]), OPTIONS, topic_ids))


def test_tables_are_found_by_their_names(root, folders):
    assert [(each.path, *each.replica.key, each.replica.replica_uuid) for each in found(root)] == [
        (str(folders[0]), TOPIC_ID, 0, UUIDS[0]),
        (str(folders[1]), TOPIC_ID, 1, UUIDS[1]),
        (str(folders[2]), OTHER_ID, 0, UUIDS[2]),
    ]
    assert [each.path for each in found(root, frozenset({OTHER_ID}))] == [str(folders[2])]


def test_a_removed_table_is_gone_and_its_neighbours_are_not(root, folders):
    first, second, third = found(root)

    remove_table(str(root[0]), root[1], first, OPTIONS)
    assert found(root) == [second, third]
    remove_table(str(root[0]), root[1], first, OPTIONS)  # twice, as a task may
    remove_table(str(root[0]), root[1], second, OPTIONS)

    assert not folders[0].parent.exists()
    assert Path(third.path).is_dir()


def test_of_another_disk_nothing_is_removed(root, folders):
    with pytest.raises(KafkaStorageError, match="is not the disk it was"):
        remove_table(str(root[0]), "another disk", found(root)[0], OPTIONS)

    assert folders[0].is_dir()


def test_a_path_that_is_not_what_its_ids_say_is_not_removed(root, folders):
    table = found(root)[0]
    wrong = [
        replace(table, path=str(folders[1])),
        replace(table, path=str(root[0])),
        replace(table, path=f"{table.path}/.."),
        replace(table, path=f"{table.path}/_delta_log"),
        replace(table, replica=table.replica._replace(key=PartitionKey(TOPIC_ID, 7))),
        replace(table, replica=table.replica._replace(key=PartitionKey(OTHER_ID, 0))),
    ]
    for each in wrong:
        with pytest.raises(KafkaStorageError, match="is not where a replica's folder would be"):
            remove_table(str(root[0]), root[1], each, OPTIONS)

    assert len(found(root)) == 3


def test_a_link_in_a_folders_place_is_not_followed(root, folders, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    folders[0].rename(elsewhere)
    folders[0].symlink_to(elsewhere)

    remove_table(str(root[0]), root[1], found(root)[0], OPTIONS)

    assert (elsewhere / "_delta_log").is_dir()
    assert not folders[0].is_symlink()

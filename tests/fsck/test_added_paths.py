"""I26 on one table's history: which paths it added, under which fence, and which twice."""

from kafka_on_spark.audit.history import FileEntry
from kafka_on_spark.audit.replicas.added_paths import AddedPaths
from tests.builders import segment

OLD, NEW = (segment("a", epoch=epoch).file_name for epoch in (4, 5))


def entry(path):
    return FileEntry(
        path=path,
        size_bytes=1,
        values={},
        record_count=1,
        timestamp_min_us=0,
        timestamp_max_us=0,
        time_ms=0,
        changes_data=True,
    )


def test_a_path_is_added_under_the_fence_in_its_name():
    paths = AddedPaths()

    assert paths.follow([entry(NEW)], [], 5) == []
    [flaw] = paths.follow([entry(OLD)], [], 5)
    assert flaw.startswith(f"the file {OLD} is added by a commit of leadership 5")


def test_a_path_is_not_added_again_after_it_was_removed():
    paths = AddedPaths()
    paths.follow([entry(NEW)], [], 5)
    paths.follow([], [NEW], 5)

    assert paths.follow([entry(NEW)], [], 5) == [
        f"the file {NEW} is added again, after the table removed it"
    ]

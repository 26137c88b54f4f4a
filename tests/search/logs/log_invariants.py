"""What must hold of a table's log: of its files after each change, and of what a process is told."""

from kafka_on_spark.store.delta import log_cleaning
from kafka_on_spark.store.delta.delta_files import checkpoint_version, commit_version
from tests.search.logs.file_calls import checkpoint_bytes
from tests.search.logs.log_processes import Told
from tests.search.logs.log_world import DAMAGED, LogWorld, Table
from tests.search.world import require


def check_files(world: LogWorld, table: Table) -> None:
    kept = {
        version
        for name, file in table.files
        if (version := commit_version(name)) is not None
        and version <= table.newest
        and table.history[version] == file
    }
    require(table.newest < 0 or table.newest in kept, "newest kept", f"{table.newest} is deleted")
    require(
        kept == set(range(min(kept, default=0), table.newest + 1)),
        "no gap",
        f"of {table.newest} commits {sorted(kept)} are there",
    )
    for name, (content, _) in table.files:
        version = checkpoint_version(name)
        if version is not None and content != DAMAGED:
            require(
                version <= table.newest
                and content == checkpoint_bytes(world.counters_at(table, version)),
                "checkpoint",
                f"that of {version} is not what the table held there",
            )


def check_opened(world: LogWorld, table: Table, told: Told) -> None:
    """Check what a process finds that opens a table while nobody else does anything."""
    truth = world.counters_at(table, table.newest)
    require(
        told.outcome == "done" and told.known.counters == truth,
        "opens",
        f"{told.outcome} {told.message}, at {told.known.version} of {table.newest}",
    )


def check_told(world: LogWorld, table: Table, told: Told, floor: int, *, has_failed: bool) -> None:
    """Check what a process was told.

    `floor`: the newest version when its operation began. `has_failed`: a call did, of anybody.
    """
    require(
        told.outcome not in ("lost", "corrupt"),
        "no false alarm",
        f"a sound table is called {told.outcome}: {told.message}",
    )
    if told.operation in ("commit", "create"):
        _check_commit(world, table, told, has_failed=has_failed)
    if told.operation == "refresh" and told.outcome == "done":
        require(
            floor <= told.known.version <= table.newest,
            "newest found",
            f"{told.known.version} is taken for the newest, {floor} was there before",
        )
    if told.operation == "ask" and told.outcome == "done":
        require(
            told.known.version >= floor,
            "newest believed",
            f"{told.known.version} is believed to be the newest, {floor} was there before",
        )
    if told.known.counters is not None:
        require(
            told.known.counters == world.counters_at(table, told.known.version),
            "content",
            f"{told.known.counters} is counted at {told.known.version}",
        )


def _check_commit(world: LogWorld, table: Table, told: Told, *, has_failed: bool) -> None:
    standing = [
        version
        for version, file in enumerate(table.history)
        if world.counters_in(file[0]) == ((told.write_id, version),)
    ]
    if told.outcome == "done":
        require(
            standing == [told.at_version + 1],
            "committed",
            f"{told.write_id} is told to be committed, and stands at {standing}",
        )
    elif told.outcome == "conflict" and told.operation == "commit":
        may_land = [
            name
            for name, (content, _) in table.pending
            if world.counters_in(content)[0][0] == told.write_id
            and (commit_version(name) or 0) > table.newest
        ]
        require(
            not standing and not may_land,
            "conflict",
            f"{told.write_id} is told to have lost, and stands at {standing + may_land}",
        )
    elif told.outcome == "conflict":
        require(table.newest >= 0, "conflict", "there is no table that could have been made before")
    elif not has_failed:
        passed = table.newest - told.at_version
        require(
            passed > log_cleaning.COMMITS_KEPT,
            "margin",
            f"{told.outcome} after {passed} commits, and nothing failed: {told.message}",
        )

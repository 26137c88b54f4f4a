"""Reads from the commits of a Delta log what delta-rs does not tell, or only by listing the log."""

from typing import Any

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.calls.file_limits import CHECKPOINT_BYTES_MAX
from kafka_on_spark.storage.delta.delta_files import (
    checkpoint_path,
    checkpoint_version,
    commit_path,
    log_folder,
)
from kafka_on_spark.storage.delta.old_commits import read_commit
from kafka_on_spark.storage.roots.parquet_files import read_parquet
from kafka_on_spark.storage.roots.roots import RootFiles
from kafka_on_spark.stored_json import parse_json


def commits_after(
    files: RootFiles, uri: str, version: int, limit: int
) -> list[list[dict[str, Any]]] | None:
    """Return the actions of the commits after `version`, one list a commit; None if there are
    more than `limit`, or one can't be read: then the caller asks delta-rs."""
    commits: list[list[dict[str, Any]]] = []
    while (content := read_commit(files, uri, version + 1 + len(commits))) is not None:
        try:
            actions = [parse_json(line) for line in content.splitlines() if line]
        except ValueError:
            return None
        if not actions or len(commits) == limit:
            return None
        commits.append(actions)
    return commits


def counters_in(files: RootFiles, uri: str, version: int) -> dict[str, int]:
    """Return the `txn` counters that the commit of `version` sets; none if the commit is not plain
    enough to tell: then the caller asks delta-rs.

    Raises:
        CorruptLogError: It sets one twice.
    """
    counters: dict[str, int] = {}
    try:
        for line in (read_commit(files, uri, version) or b"").splitlines():
            # Parse only what may set a counter: lines that add files are long, and many.
            txn = parse_json(line).get("txn") if b'"txn"' in line else None
            if txn is not None:
                _add_counter(counters, txn, commit_path(uri, version))
    except (TypeError, ValueError, KeyError, AttributeError):
        return {}
    return counters if all(type(each) is int for each in counters.values()) else {}


def read_counters(files: RootFiles, uri: str, version: int) -> dict[str, int]:
    """Return all `txn` counters as of `version`, from a checkpoint and the commits after it.

    Raises:
        CorruptLogError: A file is missing, can't be read, or sets a counter twice.
    """
    names = files.names(log_folder(uri))
    checkpoints = [each for each in map(checkpoint_version, names) if each is not None]
    read_from = (each for each in sorted(checkpoints, reverse=True) if each <= version)
    newest = next((each for each in read_from if files.size(checkpoint_path(uri, each))), -1)
    counters: dict[str, int] = {}
    try:
        if newest >= 0:
            path = checkpoint_path(uri, newest)
            content = _required(files.read(path, CHECKPOINT_BYTES_MAX), path)
            column = read_parquet(content, path, columns=["txn"]).column("txn")
            counters = {txn["appId"]: txn["version"] for txn in column.drop_null().to_pylist()}
        for each in range(newest + 1, version + 1):
            path = commit_path(uri, each)
            commit, set_by_it = _required(read_commit(files, uri, each), path), dict[str, int]()
            for line in commit.splitlines():
                txn = parse_json(line).get("txn")
                if txn is not None:
                    _add_counter(set_by_it, txn, path)
            counters |= set_by_it
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CorruptLogError(f"the log of {uri} can't be read: {error}") from error
    return counters


def _add_counter(counters: dict[str, int], txn: dict[str, Any], path: str) -> None:
    """Add a counter that a commit sets. Of two with one name delta-rs takes the first, others take
    the last. No writer of ours sets one twice, so the log is damaged."""
    if txn["appId"] in counters:
        raise CorruptLogError("a commit sets a counter twice", path=path, counter=txn["appId"])
    counters[txn["appId"]] = txn["version"]


def _required(content: bytes | None, path: str) -> bytes:
    if content is None:
        raise CorruptLogError("a file of a table's log is missing", path=path)
    return content

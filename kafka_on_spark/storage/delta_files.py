"""The files of a Delta log as they lie there: their names, and what delta-rs does not tell of them.

Apart from `delta`, which decides what a commit's outcome is, since this only reads.
"""

import json
from bisect import bisect_left
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.roots import RootFiles

CHECKPOINT: Final = ".checkpoint.parquet"


def log_folder(uri: str) -> str:
    """Return the folder of the log of the table at `uri`."""
    return f"{uri}/_delta_log"


def commit_path(uri: str, version: int) -> str:
    """Return the path of the commit file of `version`."""
    return f"{log_folder(uri)}/{version:020d}.json"


def checkpoint_path(uri: str, version: int) -> str:
    """Return the path of the checkpoint of `version`."""
    return f"{log_folder(uri)}/{version:020d}{CHECKPOINT}"


def checkpoint_version(path: str) -> int | None:
    """Return which version a file of the log is a checkpoint of, or None if of none."""
    name = path.rsplit("/", 1)[-1]
    return int(name[:20]) if name.endswith(CHECKPOINT) else None


def last_checkpoint(files: RootFiles, uri: str) -> int:
    """Return the version that the log's own hint says is the newest checkpoint's, or -1.

    One small read in place of a listing. It may be behind, or not there; and it is a hint.
    """
    content = files.read(f"{log_folder(uri)}/_last_checkpoint")
    try:
        return -1 if content is None else int(json.loads(content)["version"])
    except (ValueError, TypeError, KeyError):
        return -1


def newest_paths(files: RootFiles, uri: str) -> list[str]:
    """Return the paths of the newest checkpoint, if there is one, and of all commits from its
    version on, sorted."""
    names = files.names(log_folder(uri))
    newest = next((name for name in reversed(names) if name.endswith(CHECKPOINT)), "")
    tail = names[bisect_left(names, newest[:20]) :]
    # Other names are those of commits that are being written.
    return [f"{log_folder(uri)}/{name}" for name in tail if name.endswith((".json", ".parquet"))]


def commits_after(
    files: RootFiles, uri: str, version: int, limit: int
) -> list[list[dict[str, Any]]] | None:
    """Return the actions of the commits after `version`, one list a commit; None if they are
    more than `limit`, or one can't be read: then delta-rs has to say what is there."""
    commits: list[list[dict[str, Any]]] = []
    while (content := files.read(commit_path(uri, version + 1 + len(commits)))) is not None:
        try:
            actions = [json.loads(line) for line in content.splitlines() if line]
        except ValueError:
            return None
        if not actions or len(commits) == limit:
            return None
        commits.append(actions)
    return commits


def write_id_of(content: bytes) -> str | None:
    """Return a commit's write id, "" if it has none; None if this can't be read as a commit."""
    try:
        actions = [json.loads(line) for line in content.splitlines() if line]
        infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
        if not actions:
            return None
        return str(infos[0].get("writeId", "")) if infos else ""
    except (ValueError, TypeError, AttributeError):
        return None


def read_counters(files: RootFiles, uri: str, version: int) -> dict[str, int]:
    """Return all `txn` counters as of `version`, from a checkpoint and the commits after it.

    Raises:
        CorruptLogError: A file is missing or can't be read.
    """
    names = files.names(log_folder(uri))
    checkpoints = [each for each in map(checkpoint_version, names) if each is not None]
    newest = max((each for each in checkpoints if each <= version), default=-1)
    counters: dict[str, int] = {}
    try:
        if newest >= 0:
            content = pa.BufferReader(_read(files, checkpoint_path(uri, newest)))
            column = pq.read_table(content, columns=["txn"]).column("txn")
            counters = {txn["appId"]: txn["version"] for txn in column.drop_null().to_pylist()}
        for each in range(newest + 1, version + 1):
            for line in _read(files, commit_path(uri, each)).splitlines():
                txn = json.loads(line).get("txn")
                if txn is not None:
                    counters[txn["appId"]] = txn["version"]
    except (pa.ArrowException, ValueError, KeyError, AttributeError) as error:
        raise CorruptLogError(f"the log of {uri} can't be read: {error}") from error
    return counters


def _read(files: RootFiles, path: str) -> bytes:
    content = files.read(path)
    if content is None:
        raise CorruptLogError("a file of a table's log is missing", path=path)
    return content

"""The files of a Delta log as they lie there: their names, and what delta-rs does not tell of them.

Apart from `delta`, which decides what a commit's outcome is, since this only reads.
"""

import json
from bisect import bisect_left
from typing import Final

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.limits import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    SMALL_FILE_BYTES_MAX,
)
from kafka_on_spark.storage.local_files import OddFileError, check_size
from kafka_on_spark.storage.roots import RootFiles, is_local

CHECKPOINT: Final = ".checkpoint.parquet"
_BOUNDS: Final = {
    ".json": COMMIT_BYTES_MAX,
    CHECKPOINT: CHECKPOINT_BYTES_MAX,
    "_last_checkpoint": SMALL_FILE_BYTES_MAX,
}


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
    try:
        content = files.read(f"{log_folder(uri)}/_last_checkpoint", SMALL_FILE_BYTES_MAX)
        return -1 if content is None else int(json.loads(content)["version"])
    except (ValueError, TypeError, KeyError, RecursionError, OddFileError):
        return -1


def newest_paths(files: RootFiles, uri: str) -> list[str]:
    """Return the paths of the newest checkpoint, if there is one, and of all commits from its
    version on, sorted."""
    names = files.names(log_folder(uri))
    newest = next((name for name in reversed(names) if name.endswith(CHECKPOINT)), "")
    tail = names[bisect_left(names, newest[:20]) :]
    # Other names are those of commits that are being written.
    return [f"{log_folder(uri)}/{name}" for name in tail if name.endswith((".json", ".parquet"))]


def check_log(files: RootFiles, uri: str, version: int | None = None) -> None:
    """Check the files of a local table's log that a reader is about to open, who would hang with a
    pipe or take all memory: those of `version` and the next ones; without it, all of the log.

    A store has no pipes, and its listing would cost a request more.

    Raises:
        CorruptLogError: One is no regular file, or larger than it can be.
    """
    if is_local(uri):
        try:
            _check_log(files, uri, version)
        except OddFileError as error:
            raise CorruptLogError(error.message, **error.context) from error


def _check_log(files: RootFiles, uri: str, version: int | None) -> None:
    if version is None:
        for name, size in files.sizes(log_folder(uri)).items():
            for ending, bytes_max in _BOUNDS.items():
                if name.endswith(ending):
                    check_size(size, bytes_max, f"{log_folder(uri)}/{name}")
        return
    while (found := files.size(path := commit_path(uri, version))) is not None:
        check_size(found, COMMIT_BYTES_MAX, path)
        version += 1


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

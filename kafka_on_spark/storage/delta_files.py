"""The files of a Delta log as they lie there: their names, and what delta-rs does not tell of them.

Apart from `delta`, which decides what a commit's outcome is, since this only reads.
"""

import re
from typing import Final

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.limits import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    SMALL_FILE_BYTES_MAX,
)
from kafka_on_spark.storage.local_files import OddFileError, check_size
from kafka_on_spark.storage.roots import RootFiles, is_local
from kafka_on_spark.stored_json import parse_json

CHECKPOINT: Final = ".checkpoint.parquet"
_BOUNDS: Final = {
    ".json": COMMIT_BYTES_MAX,
    CHECKPOINT: CHECKPOINT_BYTES_MAX,
    # Of a hint nothing depends: it only must not fill the memory of who reads it.
    "_last_checkpoint": COMMIT_BYTES_MAX,
}

PROTOCOL: Final = (1, 2)
"""Reader and writer version of a table of ours; a higher one may mean what this one can't read."""

# Whole names: a Mac leaves `._…` beside each file, and people leave copies.
_COMMIT_NAME: Final = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT_NAME: Final = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_VERSION_END: Final = 2**63


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
    return _version(_CHECKPOINT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commit_version(path: str) -> int | None:
    """Return which version a file of the log is the commit of, or None if of none."""
    return _version(_COMMIT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def _version(found: re.Match[str] | None) -> int | None:
    # To delta-rs a version has 64 bits.
    return int(found[1]) if found is not None and int(found[1]) < _VERSION_END else None


def last_checkpoint(files: RootFiles, uri: str) -> int:
    """Return the version that the log's own hint says is the newest checkpoint's, or -1.

    One small read in place of a listing. It may be behind, or not there; and it is a hint.
    """
    try:
        content = files.read(f"{log_folder(uri)}/_last_checkpoint", SMALL_FILE_BYTES_MAX)
        version = -1 if content is None else parse_json(content)["version"]
    except (ValueError, TypeError, KeyError, OddFileError):
        return -1
    return version if isinstance(version, int) else -1


def newest_paths(files: RootFiles, uri: str) -> list[str]:
    """Return the paths of the newest checkpoint that is not empty, if there is one, of the commit
    that it was made of, there or not, and of all commits after it, sorted."""
    names = files.names(log_folder(uri))
    checkpoints = sorted(each for name in names if (each := checkpoint_version(name)) is not None)
    while checkpoints and not files.size(checkpoint_path(uri, checkpoints[-1])):
        checkpoints.pop()  # a power cut kept its name and not its bytes
    newest = checkpoints[-1] if checkpoints else -1
    versions = (commit_version(name) for name in names)
    tail = [commit_path(uri, each) for each in versions if each is not None and each > newest]
    if newest < 0:
        return sorted(tail)
    return [checkpoint_path(uri, newest), commit_path(uri, newest), *sorted(tail)]


def check_log(files: RootFiles, uri: str, version: int | None = None) -> None:
    """Check the files of a local table's log that a reader is about to open, who would hang with a
    pipe or take all memory: those of `version` and the next ones; without it, all of the log.

    A store has no pipes, and its listing would cost a request more; a checkpoint there is looked
    at by `check_checkpoints`.

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
                if size > bytes_max and name.endswith(ending):
                    check_size(size, bytes_max, f"{log_folder(uri)}/{name}")
        return
    while (found := files.size(path := commit_path(uri, version))) is not None:
        check_size(found, COMMIT_BYTES_MAX, path)
        version += 1


def check_checkpoint_size(size_bytes: int, path: str) -> None:
    """Check that a checkpoint is not larger than it can be.

    Raises:
        CorruptLogError: It is.
    """
    try:
        check_size(size_bytes, CHECKPOINT_BYTES_MAX, path)
    except OddFileError as error:
        raise CorruptLogError(error.message, **error.context) from error


def write_id_of(content: bytes) -> str | None:
    """Return a commit's write id, "" if it has none; None if this can't be read as a commit."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
        infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
        if not actions:
            return None
        return str(infos[0].get("writeId", "")) if infos else ""
    except (ValueError, TypeError, AttributeError):
        return None

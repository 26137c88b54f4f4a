"""Names, sizes and hints of the files of a Delta log, which delta-rs does not tell.

Apart from `conditional_commit`, which decides a commit's outcome: this module only reads.
"""

import re
from typing import Final

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.calls.file_limits import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    SMALL_FILE_BYTES_MAX,
)
from kafka_on_spark.storage.roots.local_files import UnsafeFileError, check_size
from kafka_on_spark.storage.roots.roots import RootFiles, is_local
from kafka_on_spark.stored_json import parse_json

CHECKPOINT: Final = ".checkpoint.parquet"
_BOUNDS: Final = {
    ".json": COMMIT_BYTES_MAX,
    CHECKPOINT: CHECKPOINT_BYTES_MAX,
    # Nothing depends on a hint: it only must not exhaust its reader's memory.
    "_last_checkpoint": COMMIT_BYTES_MAX,
}

PROTOCOL: Final = (1, 2)
"""Reader and writer version of our tables; a higher one may mean what this version can't read."""

# Whole names only: macOS leaves `._…` beside each file, and people leave copies.
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
    """Return the version that a file of the log is the checkpoint of, or None if it is none."""
    return _version(_CHECKPOINT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commit_version(path: str) -> int | None:
    """Return the version that a file of the log is the commit of, or None if it is none."""
    return _version(_COMMIT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def _version(found: re.Match[str] | None) -> int | None:
    # delta-rs holds a version in 64 bits.
    return int(found[1]) if found is not None and int(found[1]) < _VERSION_END else None


def last_checkpoint(files: RootFiles, uri: str) -> int:
    """Return the version of the newest checkpoint by the log's own hint, or -1.

    One small read in place of a listing. The hint may be absent, old or wrong.
    """
    try:
        content = files.read(f"{log_folder(uri)}/_last_checkpoint", SMALL_FILE_BYTES_MAX)
        version = -1 if content is None else parse_json(content)["version"]
    except (ValueError, TypeError, KeyError, UnsafeFileError):
        return -1
    return version if isinstance(version, int) else -1


def newest_paths(files: RootFiles, uri: str) -> list[str]:
    """Return the sorted paths of the newest checkpoint that is not empty, if any, of the commit of
    the same version, present or not, and of all commits after it."""
    names = files.names(log_folder(uri))
    checkpoints = sorted(each for name in names if (each := checkpoint_version(name)) is not None)
    while checkpoints and not files.size(checkpoint_path(uri, checkpoints[-1])):
        checkpoints.pop()  # a power cut kept its name and lost its bytes
    newest = checkpoints[-1] if checkpoints else -1
    versions = (commit_version(name) for name in names)
    tail = [commit_path(uri, each) for each in versions if each is not None and each > newest]
    if newest < 0:
        return sorted(tail)
    return [checkpoint_path(uri, newest), commit_path(uri, newest), *sorted(tail)]


def check_log(files: RootFiles, uri: str, version: int | None = None) -> None:
    """Check the log's files that delta-rs is about to open on a local disk, where a pipe would hang
    it and a huge file exhaust the memory: from `version` on, or all of the log.

    A store has no pipes, and a listing there would cost one more request; `check_checkpoints`
    covers a checkpoint there.

    Raises:
        CorruptLogError: One is no regular file, or larger than it can be.
    """
    if is_local(uri):
        try:
            _check_log(files, uri, version)
        except UnsafeFileError as error:
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
    """Check that a checkpoint is no larger than a checkpoint can be.

    Raises:
        CorruptLogError: It is larger.
    """
    try:
        check_size(size_bytes, CHECKPOINT_BYTES_MAX, path)
    except UnsafeFileError as error:
        raise CorruptLogError(error.message, **error.context) from error


def write_id_of(content: bytes) -> str | None:
    """Return a commit's write id, "" if it has none; None if `content` is no readable commit."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
        infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
        if not actions:
            return None
        return str(infos[0].get("writeId", "")) if infos else ""
    except (ValueError, TypeError, AttributeError):
        return None

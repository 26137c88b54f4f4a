"""Names of the files of a Delta log, the hint at its newest checkpoint, and a commit's write id."""

import re
from collections.abc import Iterable
from typing import Final

from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.store.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.roots import RootFiles

CHECKPOINT: Final = ".checkpoint.parquet"
UNREADABLE_SUFFIX: Final = ".unreadable"
"""The new end of the name of a checkpoint that can't be read: no reader takes it for a part of the
log."""

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


def hint_path(uri: str) -> str:
    """Return the path of the log's hint at its newest checkpoint."""
    return f"{log_folder(uri)}/_last_checkpoint"


def checkpoint_version(path: str) -> int | None:
    """Return the version that a file of the log is the checkpoint of, or None if it is none."""
    return _version(_CHECKPOINT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commit_version(path: str) -> int | None:
    """Return the version that a file of the log is the commit of, or None if it is none."""
    return _version(_COMMIT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commits_in(names: Iterable[str]) -> set[int]:
    """Return the versions of the commits among the names in a log's folder."""
    return {each for each in map(commit_version, names) if each is not None}


def checkpoints_in(names: Iterable[str]) -> set[int]:
    """Return the versions of the checkpoints among the names in a log's folder."""
    return {each for each in map(checkpoint_version, names) if each is not None}


def unreadable_in(names: Iterable[str], bound: int) -> list[str]:
    """Return the checkpoints set aside, of versions below `bound`."""
    aside = [name for name in names if name.endswith(UNREADABLE_SUFFIX)]
    versions = {name: checkpoint_version(name.removesuffix(UNREADABLE_SUFFIX)) for name in aside}
    return [name for name, version in versions.items() if version is not None and version < bound]


def _version(found: re.Match[str] | None) -> int | None:
    # delta-rs holds a version in 64 bits.
    return int(found[1]) if found is not None and int(found[1]) < _VERSION_END else None


def commit_paths(files: RootFiles, uri: str, first: int, last: int) -> list[str]:
    """Return the paths of the commits from `first` to `last` that are not cleaned, and their
    folder's."""
    folder = log_folder(uri)
    there = commits_in(files.names(folder))
    versions = [each for each in range(max(first, 0), last + 1) if each in there]
    return [*(commit_path(uri, each) for each in versions), folder]


def last_checkpoint(files: RootFiles, uri: str) -> int:
    """Return the version of the newest checkpoint by the log's own hint, or -1.

    One small read in place of a listing. The hint may be absent, old or wrong; one at a checkpoint
    that is not there is none.
    """
    try:
        content = files.read(hint_path(uri), SMALL_FILE_BYTES_MAX)
        version = -1 if content is None else parse_json(content)["version"]
        if isinstance(version, bool) or not isinstance(version, int):
            return -1
        is_there = 0 <= version < _VERSION_END and files.size(checkpoint_path(uri, version))
    except (ValueError, TypeError, KeyError, UnsafeFileError):
        return -1
    return version if is_there else -1


def has_misleading_hint(files: RootFiles, uri: str) -> bool:
    """Return whether there is a hint at a checkpoint that is not there, or that can't be read."""
    try:
        if files.size(hint_path(uri)) is None:
            return False
    except UnsafeFileError:
        return False
    return last_checkpoint(files, uri) < 0


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

"""Reads the log of a Delta table from its files, commit by commit, for audits.

Apart from `delta_log`, which starts from a checkpoint and stops at the first damage: here
every file is read, and a file that can't be read is a step of its own.

Where old commits were cleaned (`log_cleaning`), the history begins at the oldest checkpoint that
the commits go on from. A commit below those is a stray, put by a process that was frozen while they
were cleaned: no reader gets to it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.store.delta.checkpoints import CHECKPOINT_INTERVAL, read_checkpoint
from kafka_on_spark.store.delta.delta_files import (
    TableCheckpoint,
    TableDamage,
    TableStep,
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commit_step,
    commits_in,
    hint_path,
    hinted_version,
    log_folder,
)
from kafka_on_spark.store.delta.log_cleaning import first_kept
from kafka_on_spark.store.local_files import (
    COMMIT_BYTES_MAX,
    UnsafeFileError,
)
from kafka_on_spark.store.roots import RootFiles

BEHIND_MAX: Final = 5 * CHECKPOINT_INTERVAL
"""Commits since a checkpoint: so many are there only if several in a row were not written."""


def table_steps(
    files: RootFiles, uri: str, *, has_all_checkpoints: bool, from_version: int = 0
) -> Iterator[TableStep]:
    """Yield the steps of a table's log from `from_version` on, oldest first.

    A checkpoint comes after the commit of its version. The newest checkpoint is read, and those
    that replace commits that are gone or damaged; or all. Where old commits were cleaned, nothing
    but damage comes before the first checkpoint that can be read.

    Raises:
        ReplicaLostError: There is no table.
        KafkaStorageError: The root does not answer, or a cleaner deleted what is to be read.
    """
    names = files.names(log_folder(uri))
    checkpoints = checkpoints_in(names)
    commits = _whole(commits_in(names), files, uri)
    versions = commits | checkpoints
    if not versions:
        raise ReplicaLostError(f"there is no table at {uri}")
    first = _first_version(commits, checkpoints)
    if 0 < from_version < first:
        raise _cleaned_meanwhile(uri)  # a checkpoint says nothing of the commits before it
    expected = max(first, from_version)
    has_base = expected == from_version
    if not has_base and first not in checkpoints:
        yield _gap(uri, 0, first - 1)
    wanted = checkpoints if has_all_checkpoints else {max(checkpoints, default=-1)}
    steps = _steps(files, uri, commits, checkpoints, wanted, expected, needs_base=first > 0)
    yield from steps if has_base else _from_base(steps)
    yield from _check_hint(files, uri, checkpoints)
    behind = max(versions) - max(checkpoints, default=0)
    if not from_version and behind > BEHIND_MAX:
        sentence = (
            f"the newest checkpoint of {uri} is {behind} commits old, which all who open it read,"
            " and none is deleted: see the warnings of those who append for why they write none"
        )
        yield TableDamage(version=max(versions), sentence=sentence, is_checkpoint=True)


def _steps(
    files: RootFiles,
    uri: str,
    commits: set[int],
    checkpoints: set[int],
    wanted: set[int],
    expected: int,
    *,
    needs_base: bool,
) -> Iterator[TableStep]:
    """Yield the steps from version `expected` on, with all `wanted` checkpoints."""
    for version in sorted(each for each in commits | checkpoints if each >= expected):
        if version > expected:
            needs_base = True
            yield _gap(uri, expected, version - 1)
        expected = version + 1
        step = _read_commit(files, uri, version, is_there=version in commits)
        needs_base = needs_base or isinstance(step, TableDamage)
        yield step
        if version in wanted or (needs_base and version in checkpoints):
            checkpoint = _read_checkpoint(files, uri, version)
            needs_base = needs_base and isinstance(checkpoint, TableDamage)
            yield checkpoint


def _from_base(steps: Iterable[TableStep]) -> Iterator[TableStep]:
    """Yield the steps from the first checkpoint that can be read on, and before it damage alone:
    what the commits there go on from is not known."""
    has_base = False
    for step in steps:
        has_base = has_base or isinstance(step, TableCheckpoint)
        if has_base:
            yield step
        elif isinstance(step, TableDamage):
            yield replace(step, is_checkpoint=False)  # the commits don't have all


def _whole(commits: set[int], files: RootFiles, uri: str) -> set[int]:
    """Return the listed commits, and those below the newest of them that were put while the folder
    was listed: the listing of a local folder may lack one and have the next."""
    newest = max(commits, default=0)
    if not commits or len(commits) == newest - min(commits) + 1:
        return commits
    now = commits_in(files.names(log_folder(uri)))
    return commits | {each for each in now if each < newest}


def _first_version(commits: set[int], checkpoints: set[int]) -> int:
    """Return where the history begins: a cleaner may have stopped anywhere below its bound, and a
    writer that was frozen may have put a commit there since."""
    first = first_kept(checkpoints)
    while first - 1 in commits:
        first -= 1
    if first == 0:
        return 0 if 0 in commits else min(checkpoints or commits)
    return min(each for each in checkpoints if each >= first)


def _check_not_cleaned(files: RootFiles, uri: str, version: int) -> None:
    """Check that a listed file of the log that is gone was not deleted by a cleaner meanwhile."""
    if version < first_kept(checkpoints_in(files.names(log_folder(uri)))):
        raise _cleaned_meanwhile(uri)


def _cleaned_meanwhile(uri: str) -> KafkaStorageError:
    return KafkaStorageError(f"old commits of {uri} were deleted while they were read: try again")


def _gap(uri: str, first: int, last: int) -> TableDamage:
    path = commit_path(uri, first)
    if first == last:
        return TableDamage(version=first, sentence=f"the commit {path} is missing")
    sentence = f"{last - first + 1} commits from {path} on are missing"
    return TableDamage(version=first, sentence=sentence)


def _read_commit(files: RootFiles, uri: str, version: int, *, is_there: bool) -> TableStep:
    path = commit_path(uri, version)
    try:
        content = files.read(path, COMMIT_BYTES_MAX) if is_there else None
    except UnsafeFileError as error:
        return TableDamage(version=version, sentence=error.message)
    if content is None:
        _check_not_cleaned(files, uri, version)
        return TableDamage(version=version, sentence=f"the commit {path} is missing")
    return commit_step(content, version, path)


def _read_checkpoint(files: RootFiles, uri: str, version: int) -> TableStep:
    step = read_checkpoint(files.read, uri, version)
    if step is not None:
        return step
    _check_not_cleaned(files, uri, version)
    sentence = f"the checkpoint {checkpoint_path(uri, version)} is missing"
    return TableDamage(version=version, sentence=sentence, is_checkpoint=True)


def _check_hint(files: RootFiles, uri: str, checkpoints: set[int]) -> Iterator[TableDamage]:
    """Check the hint at the newest checkpoint: a hint at a missing one makes a table unreadable.

    One that can't be read is passed over by all engines: a power cut leaves such hints.
    """
    version = hinted_version(files, uri)
    if version is None or version in checkpoints:
        return
    # The checkpoint may have been written after the folder was listed.
    if files.size(checkpoint_path(uri, version)) is None:
        hint = f"the hint {hint_path(uri)} names the checkpoint of version {version}"
        yield TableDamage(
            version=version, sentence=f"{hint}, which is not there", is_checkpoint=True
        )

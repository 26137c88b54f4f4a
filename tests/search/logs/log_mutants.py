"""Rules of a table's log, each taken out of the real code by an edit that the search must see.

Rules whose absence alone does no harm are not here: a local commit looks at the one before it
first (the look after the put sees the same; it is for a disk that is away, where not even a file may
be left); after a put whose predecessor is gone the table is opened anew (the next follow does); a
commit that is gone has the log listed again (the first one is gone, too, and is looked at last).
"""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.delta_log import DeltaLog
from tests.search.logs.log_scopes import (
    CREATORS,
    DAMAGED,
    DYING,
    FOLLOWERS,
    LATE,
    LISTERS,
    MARGIN,
    OPENERS,
    SLEEPERS,
    STRAYS,
    TWICE,
    UNSAID,
)
from tests.search.logs.log_search import LogScope
from tests.search.logs.log_world import Allowance


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one function's text.

    Attributes:
        owner: Its module or class.
        name: Its own.
        changes: What stands in it, once, and what stands there instead; in turns.
    """

    owner: Any
    name: str
    changes: tuple[str, ...]

    def function(self) -> Any:
        """Return the function as edited."""
        original = getattr(self.owner, self.name)
        source = textwrap.dedent(inspect.getsource(original))
        for old, new in zip(self.changes[::2], self.changes[1::2], strict=True):
            assert source.count(old) == 1, f"{old!r} stands not once in {self.name}"
            source = source.replace(old, new)
        made: dict[str, Any] = {}
        exec(source, original.__globals__, made)
        return made[self.name]


@dataclass(frozen=True, slots=True)
class LogMutant:
    """A rule that is taken out.

    Attributes:
        rule: What holds no more, in words.
        scope: The smallest known in which it does harm.
        edits: What is changed.
        invariant: Which one is seen not to hold; None: no harm is done.
    """

    rule: str
    scope: LogScope
    edits: tuple[Edit, ...]
    invariant: str | None

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Have the rule taken out."""
        with ExitStack() as stack:
            for each in self.edits:
                stack.enter_context(mock.patch.object(each.owner, each.name, each.function()))
            yield


def _mutant(
    rule: str, scope: LogScope, invariant: str | None, *edits: tuple[Any, ...]
) -> LogMutant:
    made = tuple(Edit(owner, name, tuple(changes)) for owner, name, *changes in edits)
    return LogMutant(rule, scope, made, invariant)


_LOOKS_BEFORE = "files.size(commit_path(uri, version - 1)) is not None"


# On a disk a writer that is behind is refused before it puts: there it would have to sleep between.
STRAYS_ON_A_STORE = replace(STRAYS, is_local=False)
_PUT = "own is None or (version and before != self._newest)"
_LOOKS = "if self._commits.stamps(known) != [self._newest] or newest is None:"

LOG_MUTANTS = [
    # Putting
    _mutant(
        "a put counts only if the commit before it is still there",
        SLEEPERS,
        "committed",
        (DeltaLog, "_stamp_after_put", _PUT, "own is None"),
    ),
    _mutant(
        "the commit before a put must be the one that was read",
        STRAYS_ON_A_STORE,
        "committed",
        (DeltaLog, "_stamp_after_put", _PUT, "own is None or (version and before is None)"),
    ),
    _mutant(
        "only what is there after one's own commit was looked at vouches for it",
        replace(TWICE, allowance=Allowance(commits=5, faults=1)),
        "committed",
        (
            DeltaLog,
            "_stamp_after_put",
            "own, before = self._commits.stamps(*both, in_any_order=is_taken)",
            "before, own = self._commits.stamps(*reversed(both))",
        ),
    ),
    _mutant(
        "a put whose predecessor is gone is unknown, not in conflict",
        TWICE,
        "conflict",
        (
            DeltaLog,
            "_stamp_after_put",
            "self.reopen_next_time()\n        raise CommitOutcomeUnknownError",
            "self.reopen_next_time()\n        raise CommitConflictError",
        ),
    ),
    _mutant(
        "another's commit at one's version is a conflict only if the one before is still there",
        UNSAID,
        "conflict",
        (
            DeltaLog,
            "commit",
            "self._following = at_version, self._stamp_after_put(version, is_taken=True)",
            "pass",
        ),
    ),
    _mutant(
        "a put that failed and is not there may still land",
        LATE,
        "conflict",
        (
            DeltaLog,
            "_resolve",
            "raise CommitOutcomeUnknownError",
            "raise CommitConflictError",
        ),
    ),
    _mutant(
        "after an error the commit at one's version is read",
        UNSAID,
        "conflict",
        (DeltaLog, "_resolve", "found = self._write_id_at(version)", 'found = "another"'),
    ),
    _mutant(
        "version 0 counts only if the folder holds nothing else",
        CREATORS,
        "committed",
        (DeltaLog, "_create", "if holds_more(self._files, self.uri):", "if False:"),
    ),
    # Following
    _mutant(
        "a follower believes that a commit is absent only if its newest is still there",
        SLEEPERS,
        "newest found",
        (DeltaLog, "_read_following", _LOOKS, "if False:"),
    ),
    _mutant(
        "a follower's newest must be the file that it read",
        STRAYS_ON_A_STORE,
        "newest found",
        (
            DeltaLog,
            "_read_following",
            _LOOKS,
            "if self._commits.stamps(known) == [None] or newest is None:",
        ),
    ),
    _mutant(
        "a follower looks at its newest after it has looked at all that follow",
        STRAYS,
        "newest found",
        (
            DeltaLog,
            "_read_following",
            "known, newest = state.version, self._newest",
            "known, newest = state.version, self._newest\n"
            "    is_there = self._commits.stamps(known) == [self._newest]",
            _LOOKS,
            "if not is_there or newest is None:",
        ),
    ),
    _mutant(
        "which file the newest is was asked before it is known that none was cleaned",
        replace(
            TWICE, programs=("refresh ask", *TWICE.programs[1:]), allowance=Allowance(commits=6)
        ),
        "newest believed",
        (
            DeltaLog,
            "_read_following",
            "self._commits.check_void(void)",
            "newest = self._commits.stamps(state.version)[0]\n    self._commits.check_void(void)",
        ),
    ),
    _mutant(
        "a version is the newest only if it is there",
        FOLLOWERS,
        "newest believed",
        (DeltaLog, "is_still_at", "own is not None and own == newest", "True"),
    ),
    _mutant(
        "a version is looked at after the one that would follow it",
        FOLLOWERS,
        "newest believed",
        (
            DeltaLog,
            "is_still_at",
            "following, own = self._commits.stamps(version + 1, version)",
            "own, following = self._commits.stamps(version, version + 1)",
        ),
    ),
    # Opening
    _mutant(
        "what was opened counts only if its first commit is still there",
        replace(OPENERS, is_local=False),  # on a disk what is gone can't be flushed
        "content",
        (delta_log, "_open_listed", " or log.stamps(first) != [oldest]:", ":"),
    ),
    _mutant(
        "what is opened has its first commit",
        replace(OPENERS, is_local=False),
        "content",
        (
            delta_log,
            "_open_listed",
            "None in (oldest, stamp)",
            "False",
            "if oldest is not None:",
            "if True:",
        ),
    ),
    _mutant(
        "all commits after a checkpoint are read",
        OPENERS,
        "opens",
        (
            delta_log,
            "_open_listed",
            "range(base + 1, newest + 1)",
            "range(base + 1, base + 1)",
        ),
    ),
    _mutant(
        "a log in whose listing a commit is missing is listed again",
        LISTERS,
        "no false alarm",
        (
            delta_log,
            "_open_listed",
            "oldest, *own = log.stamps",
            "if not {*range(first, newest + 1)} <= commits:\n"
            "        raise CorruptLogError('a commit is missing')\n"
            "    oldest, *own = log.stamps",
        ),
    ),
    _mutant(
        "a log whose files go while they are read is listed again",
        OPENERS,
        "no false alarm",
        (delta_log, "open_table", "number == LISTINGS_MAX - 1", "True"),
    ),
    _mutant(
        "a checkpoint that can't be read is passed over for an older one",
        DAMAGED,
        "opens",
        (
            delta_log,
            "newest_checkpoint",
            "for version in sorted(versions, reverse=True):",
            "for version in sorted(versions, reverse=True)[:1]:",
        ),
    ),
    # Cleaning
    _mutant(
        "commits are deleted in ascending order",
        DYING,
        "no gap",
        (
            log_cleaning,
            "clean_log",
            "sorted(commits_in(names))",
            "sorted(commits_in(names), reverse=True)",
            _LOOKS_BEFORE,
            "False",
        ),
    ),
    _mutant(
        "a cleaner stops at the first commit that it can't delete",
        DYING,
        "no gap",
        (
            log_cleaning,
            "clean_log",
            "files.delete_file(commit_path(uri, version))",
            "from contextlib import suppress\n"
            "        with suppress(Exception):\n"
            "            files.delete_file(commit_path(uri, version))",
        ),
    ),
    _mutant(
        "a commit is deleted only if the one before it is gone, whatever the listing says",
        MARGIN,
        "no gap",
        (
            log_cleaning,
            "clean_log",
            _LOOKS_BEFORE,
            "False",
        ),
    ),
    _mutant(
        "the commits after the oldest kept checkpoint stay",
        DAMAGED,
        "opens",
        (
            log_cleaning,
            "first_kept",
            "min(newest[0] - COMMITS_KEPT, newest[-1])",
            "newest[0] - COMMITS_KEPT",
        ),
    ),
    _mutant(
        "more than one checkpoint is kept",
        DAMAGED,
        "opens",
        (
            log_cleaning,
            "first_kept",
            "newest = sorted(checkpoints, reverse=True)[:CHECKPOINTS_KEPT]\n"
            "    if len(newest) < CHECKPOINTS_KEPT:",
            "newest = sorted(checkpoints, reverse=True)[:1]\n    if not newest:",
        ),
    ),
    _mutant(
        "the commit of the oldest kept checkpoint stays",
        DAMAGED,
        "opens",
        (log_cleaning, "clean_log", "if each < bound]", "if each <= bound]"),
    ),
    _mutant(
        "who sleeps for few commits is told what became of his",
        MARGIN,
        "margin",
        (
            log_cleaning,
            "first_kept",
            "min(newest[0] - COMMITS_KEPT, newest[-1])",
            "newest[-1]",
        ),
    ),
]

"""Puts a commit, and tells its outcome: committed, conflict or unknown.

A commit carries a write id. After any error the commit file at that version is read back, because
an error's type does not tell what happened: with our id it is committed, with another id it is a
conflict, and without a file it is unknown, since a put that timed out may still land. An unknown
outcome is resolved by putting the same commit again until a commit stands at that version, ours or
another's. A store that refuses the caller is asked once more, for credentials that were renewed;
waiting gives no permission. The outcome stays unknown: its client may have put it before.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.store.delta.commit_files import CommitFiles, NotPutError
from kafka_on_spark.store.delta.delta_files import write_id_of
from kafka_on_spark.store.error_translation import is_failure, reason, storage_error
from kafka_on_spark.store.roots import StorageOptions, is_local

log = logging.getLogger(__name__)

RESOLVE_SECONDS: Final = 30.0
"""How long a commit with an unknown outcome is put again before the caller gets an error."""

RESOLVE_SECONDS_LOCAL: Final = 1.0
"""The same on a local disk, where no request can be under way any more."""

T = TypeVar("T")


def until_found(ask: Callable[[], T | None], seconds: float) -> T | None:
    """Return what `ask` finds; None if it finds nothing for `seconds`."""
    # In the function: tenacity imports asyncio, which would add a twentieth to the start of each of
    # Spark's Python processes, and only an unknown outcome needs it. It can move up once tenacity
    # does without asyncio.
    from tenacity import (
        RetryError,
        Retrying,
        retry_if_result,
        stop_after_delay,
        wait_random_exponential,
    )

    try:
        found: T | None = Retrying(
            retry=retry_if_result(lambda found: found is None),
            stop=stop_after_delay(seconds),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
        )(ask)
    except RetryError:
        return None
    return found


@dataclass(frozen=True, slots=True)
class CommitOutcomes:
    """Puts commits into one table's log.

    Attributes:
        commits: The log's files.
        options: Credentials, which no error may show.
        is_flushed: A commit is flushed before it gets its name.
    """

    commits: CommitFiles
    options: StorageOptions
    is_flushed: bool = field(kw_only=True)

    def put(self, version: int, write_id: str, content: bytes) -> bool:
        """Put a commit until it stands at `version`; return False if a put of ours landed whose
        answer was lost.

        Raises:
            CommitConflictError: Another commit stands there.
            CommitOutcomeUnknownError: Ours may still land.
            KafkaStorageError: Nothing was put; its kind says whether the root refuses the caller,
                or is full.
        """
        error: KafkaStorageError | None = None
        try:
            if self.commits.put(version, content, is_flushed=self.is_flushed):
                return True
        except NotPutError as failed:
            raise failed.error from failed.__cause__
        except KafkaStorageError as failed_call:
            error = failed_call
        except BaseException as raised:
            if not is_failure(raised):
                raise
            error = storage_error(raised, f"commit to {self.commits.uri}", self.options)
        self._resolve(version, write_id, content, error)
        return False

    def _resolve(
        self, version: int, write_id: str, content: bytes, error: KafkaStorageError | None
    ) -> None:
        """Return if the commit at `version` is ours; raise the outcome otherwise."""
        found = self._write_id_at(version)
        if found is None:
            put_again = partial(self._put_again, version, content)
            seconds = RESOLVE_SECONDS_LOCAL if is_local(self.commits.uri) else RESOLVE_SECONDS
            is_denied = isinstance(error, RootAccessDeniedError)
            found = until_found(put_again, 0.0 if is_denied else seconds)
        if found is None:
            why = "what stands there can't be read" if error is None else error.message
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.commits.uri}: {why}", version=version
            ) from error
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from error

    def _put_again(self, version: int, content: bytes) -> str | None:
        try:
            self.commits.put(version, content, is_flushed=self.is_flushed)
        except BaseException as error:
            if not is_failure(error):
                raise
            why = reason(error, self.options)
            log.debug("commit %s of %s: %s", version, self.commits.uri, why)
        return self._write_id_at(version)

    def _write_id_at(self, version: int) -> str | None:
        """Return the write id of the commit at `version`, "" if it has none; None if there is no
        commit or it can't be read."""
        try:
            found = self.commits.read(version)
        except KafkaStorageError:
            return None
        return None if found is None else write_id_of(found.content)

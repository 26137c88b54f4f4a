"""Translates what the system, a library or a store raises into our errors; nothing else does.

What Arrow, fsspec, botocore or the system raise is a failure of the root or of this process. It is
never evidence that a replica is wrong. A caller without permission or credentials, or with a wrong
option, learns nothing about the root: that is `RootAccessDeniedError`, which counts against no
broker.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.store.storage_options import StorageOptions

ABSENT: Final = (FileNotFoundError, NotADirectoryError)
"""What the system raises if there is no such file or folder."""

_DENIED_ERRNO: Final = frozenset({errno.EACCES, errno.EPERM})
_FULL_ERRNO: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED_STATUS: Final = frozenset({401, 403})
_FULL_STATUS: Final = 507
_DENIED_KINDS: Final = frozenset(
    {
        "ClientAuthenticationError",  # azure
        "CredentialRetrievalError",  # botocore
        "DefaultCredentialsError",  # google
        "NoCredentialsError",  # botocore
        "PartialCredentialsError",  # botocore
        "RefreshError",  # google
    }
)
_ADVICE: Final[Mapping[type[KafkaStorageError], str]] = {
    RootFullError: "make room there",
    RootReadOnlyError: "mount it writable",
}


def storage_error(
    error: BaseException, doing: str, options: StorageOptions | None = None
) -> KafkaStorageError:
    """Return the error that says what failed, and why, without secrets; and what to do about a
    disk that has no room or is read-only.

    `doing`: what was tried, as after "can't": ``read /a/root/file``.
    """
    kind = KafkaStorageError
    if is_denied(error):
        kind = RootAccessDeniedError
    elif any(_is_full(each) for each in _chain(error)):
        kind = RootFullError
    elif any(_is_read_only(each) for each in _chain(error)):
        kind = RootReadOnlyError
    text = f"can't {doing}: {reason(error, options)}"
    advice = _ADVICE.get(kind)
    return kind(text if advice is None or advice in text else f"{text}: {advice}")


@contextmanager
def as_storage_errors(doing: str, options: StorageOptions | None = None) -> Iterator[None]:
    """Turn what a library or the system raises in the block into a KafkaStorageError."""
    try:
        yield
    except KafkaOnSparkError:
        raise
    except Exception as error:
        cause = error if options is None else options.shown(error)
        raise storage_error(error, doing, options) from cause


@contextmanager
def parsing(what: str, path: str | None = None) -> Iterator[None]:
    """Turn what parsing raises in the block into a CorruptLogError: the bytes were read whole, so
    only damage can make them unreadable.

    Raises:
        CorruptLogError: `what` is damaged. Our own errors pass unchanged.
    """
    try:
        yield
    except (KafkaOnSparkError, MemoryError):
        raise
    except Exception as error:
        place = {} if path is None else {"path": path}
        raise CorruptLogError(
            f"{what} is damaged: {type(error).__name__}: {reason(error)}", **place
        ) from error


def is_denied(error: BaseException) -> bool:
    """Return whether the caller lacks permission, rather than the root failed."""
    return not is_passing(error) and any(_is_denied(each) for each in _chain(error))


def is_passing(error: BaseException) -> bool:
    """Return whether who gives credentials was away (google's errors): nobody was denied."""
    return any(
        getattr(each, "retryable", False) is True or type(each).__name__ == "TransportError"
        for each in _chain(error)
    )


def is_busy(error: BaseException) -> bool:
    """Return whether a store answered that it can't now: it throttles, or fails."""
    statuses = [_status(each) or 0 for each in _chain(error)]
    return any(each == 429 or each >= 500 for each in statuses)


def _is_read_only(error: BaseException) -> bool:
    return isinstance(error, RootReadOnlyError) or getattr(error, "errno", None) == errno.EROFS


def _is_full(error: BaseException) -> bool:
    if isinstance(error, RootFullError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL_ERRNO
    return _status(error) == _FULL_STATUS


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def _is_denied(error: BaseException) -> bool:
    if isinstance(error, RootAccessDeniedError | PermissionError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _DENIED_ERRNO
    kinds = {each.__name__ for each in type(error).__mro__}
    return not kinds.isdisjoint(_DENIED_KINDS) or _status(error) in _DENIED_STATUS


def _status(error: BaseException) -> int | None:
    """Return the HTTP status in the error of a store's client, or None."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return found if isinstance(found, int) else None
    for name in ("status_code", "status", "code"):
        found = getattr(error, name, None)
        if isinstance(found, int):
            return found
    return None


def reason(error: BaseException, options: StorageOptions | None = None) -> str:
    """Return the error's text on one line, without secrets; of a store's answer, what it says."""
    chain = () if isinstance(error, KafkaOnSparkError) else _chain(error)
    text = next(filter(None, map(_stores_words, chain)), None)
    if text is None:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if options is None else options.redact(text)


def _stores_words(error: BaseException) -> str | None:
    """Return what a store said, and its code for it; None if this error of its client does not
    tell. s3fs puts the system's words in their place, and Azure's client adds all else there is."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("Error", {})
        code, said = found.get("Code"), str(found.get("Message", ""))
    else:
        code, said = getattr(error, "error_code", None), str(error).partition("\n")[0]
    name = str(getattr(code, "value", code or ""))
    # A HEAD has no body: its code is the number alone.
    return f"{said} ({name})".strip() if name and not name.isdecimal() else None

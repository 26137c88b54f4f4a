"""Roots: URLs of folders, opened with one set of credentials, flushed where that means something.

A user states storage options once, in delta-rs's words (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
…); this module turns them into what fsspec's file systems want. They are never written to a
table, a log line or an error: the class that carries them shows their names only.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import fsspec

from kafka_on_spark.errors import InvalidRootError, KafkaStorageError

# Each of these switches the conditional put off (DESIGN §2, GROUND §1.4).
_UNSAFE: Final = {
    "allow_unsafe_rename": "true",
    "aws_s3_allow_unsafe_rename": "true",
    "mount_allow_unsafe_rename": "true",
    "aws_s3_locking_provider": "dynamodb",
    "aws_conditional_put": "disabled",
    "conditional_put": "disabled",
}
_S3_NAMES: Final = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "aws_profile": "profile",
}


class StorageOptions:
    """Credentials and endpoints, for all roots or by URL prefix.

    Either names and texts, or URL prefixes and such mappings; the longest prefix of a URL
    decides. Values never show in `repr`.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        for scope in self._scopes():
            check_safe(scope)
        check_safe(os.environ)

    def _scopes(self) -> list[Mapping[str, Any]]:
        nested: list[Mapping[str, Any]] = [
            each for each in self._options.values() if isinstance(each, Mapping)
        ]
        return nested or [self._options]

    def for_url(self, url: str) -> dict[str, str]:
        """Return the options of one URL, as delta-rs takes them."""
        prefixes = [
            prefix
            for prefix, each in self._options.items()
            if isinstance(each, Mapping) and url.startswith(prefix)
        ]
        if prefixes:
            return {name: str(text) for name, text in self._options[max(prefixes, key=len)].items()}
        if any(isinstance(each, Mapping) for each in self._options.values()):
            return {}
        return {name: str(text) for name, text in self._options.items()}

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self._options))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._options == other._options

    def __hash__(self) -> int:
        return hash(repr(sorted(self._options.items(), key=repr)))


def check_safe(options: Mapping[str, Any]) -> None:
    """Check that no option switches the conditional put off.

    Raises:
        InvalidRootError: One does; two writers could both be told that they won.
    """
    for name, value in options.items():
        if _UNSAFE.get(name.lower()) == str(value).lower():
            raise InvalidRootError(
                f"the storage setting {name}={value} switches conditional puts off, on which"
                " every commit rests: remove it, also from the environment"
            )


def normalize(root: str | os.PathLike[str]) -> str:
    """Return a root's URL in the one form that is stored: an absolute path, or scheme://…

    Raises:
        InvalidRootError: It is empty, or has an unknown scheme.
    """
    text = os.fspath(root).rstrip("/") if root else ""
    if not text:
        raise InvalidRootError(f"{root!r} is not a root: give a folder or a URL such as s3://…")
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return os.path.abspath(urlsplit(text).path)
    if len(scheme) <= 1:
        return os.path.abspath(text)
    if scheme not in fsspec.available_protocols():
        raise InvalidRootError(
            f"{text!r} is not a root: the scheme {scheme!r} is unknown; give a folder or a URL"
            " such as s3://…, gs://… or abfss://…"
        )
    return text


def is_local(url: str) -> bool:
    """Return whether `url` (normalized) is a folder of this machine."""
    return url.startswith("/")


def filesystem(url: str, options: StorageOptions) -> Any:
    """Return fsspec's file system for `url`.

    Raises:
        InvalidRootError: The package that it needs is not installed.
    """
    if is_local(url):
        return fsspec.filesystem("file")
    scheme = urlsplit(url).scheme
    try:
        return fsspec.filesystem(scheme, **_fsspec_options(scheme, options.for_url(url)))
    except ImportError as error:
        raise InvalidRootError(
            f"roots of {scheme}:// need a package that is not installed: {error}"
        ) from None


def _fsspec_options(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    if scheme not in ("s3", "s3a"):
        return dict(options)
    result: dict[str, Any] = {"use_listings_cache": False}
    client: dict[str, Any] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower in _S3_NAMES:
            result[_S3_NAMES[lower]] = text
        elif lower in ("aws_endpoint_url", "aws_endpoint"):
            client["endpoint_url"] = text
        elif lower in ("aws_region", "aws_default_region"):
            client["region_name"] = text
    if client:
        result["client_kwargs"] = client
    return result


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The few file operations that are needed beside Delta's, on one root.

    Attributes:
        url: The root, normalized.
        options: Credentials.
    """

    url: str
    options: StorageOptions

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None if there is no such file.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        try:
            if is_local(path):
                return _read_local(path)
            content: bytes = filesystem(path, self.options).cat_file(path)
            return content
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise KafkaStorageError(f"can't read {path}: {_reason(error)}") from error

    def write(self, path: str, content: bytes, *, is_flushed: bool = True) -> None:
        """Write a file that nobody else writes; it is there as a whole or not at all.

        Raises:
            KafkaStorageError: The root does not answer, or is full.
        """
        try:
            if is_local(path):
                _write_local(path, content, is_flushed=is_flushed)
            else:
                filesystem(path, self.options).pipe_file(path, content)
        except OSError as error:
            raise KafkaStorageError(f"can't write {path}: {_reason(error)}") from error

    def write_if_absent(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether this call wrote it.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        try:
            if is_local(path):
                return _link_local(path, content)
            filesystem(path, self.options).pipe_file(path, content, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            raise KafkaStorageError(f"can't write {path}: {_reason(error)}") from error
        return True

    def size(self, path: str) -> int | None:
        """Return a file's size, or None if there is no such file.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        try:
            if is_local(path):
                return os.stat(path, follow_symlinks=False).st_size
            found: int = filesystem(path, self.options).info(path)["size"]
            return found
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise KafkaStorageError(f"can't look at {path}: {_reason(error)}") from error

    def delete(self, path: str) -> None:
        """Delete a file or folder of ours, such as a probe's; no error if it is gone."""
        try:
            filesystem(path, self.options).rm(path, recursive=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise KafkaStorageError(f"can't delete {path}: {_reason(error)}") from error

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            found = filesystem(path, self.options).ls(path, detail=False)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KafkaStorageError(f"can't list {path}: {_reason(error)}") from error
        return sorted(each.rstrip("/").rsplit("/", 1)[-1] for each in found)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _read_local(path: str) -> bytes:
    # A link could lead out of the root (FAULTS S2).
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _write_local(path: str, content: bytes, *, is_flushed: bool) -> None:
    temporary = _write_temporary(path, content, is_flushed=is_flushed)
    os.rename(temporary, path)


def _write_temporary(path: str, content: bytes, *, is_flushed: bool) -> str:
    temporary = f"{os.path.dirname(path)}/_{uuid4().hex}.tmp"
    with open(temporary, "xb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        if is_flushed:
            os.fsync(file.fileno())
    return temporary


def _link_local(path: str, content: bytes) -> bool:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = _write_temporary(path, content, is_flushed=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    flush([os.path.dirname(path)])
    return True


def flush(paths: Iterable[str]) -> None:
    """Make local files and folders durable; what is not local is durable already.

    Raises:
        KafkaStorageError: The disk failed. The file is lost: never flushed again and trusted.
    """
    for path in paths:
        if not is_local(path):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise KafkaStorageError(f"can't flush {path}: {_reason(error)}") from error

"""Roots: URLs of folders, opened with one set of credentials, flushed where that means something.

A user states storage options once, in delta-rs's words (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
…); this module turns them into what fsspec's file systems want. They are never written to a
table, a log line or an error: the class that carries them shows their names only.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import fsspec

from kafka_on_spark.errors import InvalidRequestError, InvalidRootError, KafkaStorageError
from kafka_on_spark.storage.local_files import local_pieces, read_local, write_temporary

# What these may say; anything else switches the conditional put off (DESIGN §2, GROUND §1.4).
_OFF: Final = frozenset({"", "0", "false", "off", "no", "n"})
_SAFE: Final = {
    "allow_unsafe_rename": _OFF,
    "aws_s3_allow_unsafe_rename": _OFF,
    "mount_allow_unsafe_rename": _OFF,
    "aws_s3_locking_provider": frozenset({""}),
    "aws_conditional_put": frozenset({"", "etag"}),
    "conditional_put": frozenset({"", "etag"}),
}
# Both delta-rs and fsspec know these.
_SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})
_SECRET: Final = re.compile("secret|token|password|sas|account_key|connection", re.IGNORECASE)
_S3_CLIENT_NAMES: Final = {
    "aws_endpoint": "endpoint_url",
    "aws_endpoint_url": "endpoint_url",
    "aws_default_region": "region_name",
    "aws_region": "region_name",
}
_S3_TIMES: Final = {"timeout": "read_timeout", "connect_timeout": "connect_timeout"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m)")
_TERMINAL: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
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

    def __init__(self, options: object = None) -> None:
        if options is None:
            options = {}
        if not isinstance(options, Mapping):
            # What was given may be a secret: never said.
            raise InvalidRequestError(
                f"storage_options can't be a {type(options).__name__}: give a mapping (a dict) of"
                " names and texts"
            )
        self._options = {str(name): each for name, each in options.items()}
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
            if isinstance(each, Mapping) and f"{url}/".startswith(f"{prefix.rstrip('/')}/")
        ]
        if prefixes:
            return {name: str(text) for name, text in self._options[max(prefixes, key=len)].items()}
        if any(isinstance(each, Mapping) for each in self._options.values()):
            return {}
        return {name: str(text) for name, text in self._options.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        # Where it is unpickled, on an executor, the environment is another one: checked anew.
        return type(self), (self._options,)

    def redact(self, text: str) -> str:
        """Return `text` without the secrets that these options hold."""
        for scope in self._scopes():
            for name, value in scope.items():
                if _SECRET.search(name) and len(str(value)) > 7:
                    text = text.replace(str(value), "[hidden]")
        return text

    def shown(self, error: BaseException) -> BaseException | None:
        """Return `error` as the cause of another, or None if its text would tell a secret."""
        return error if self.redact(str(error)) == str(error) else None

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
        allowed = _SAFE.get(name.lower())
        if allowed is not None and str(value).strip().lower() not in allowed:
            raise InvalidRootError(
                f"the storage setting {name} switches conditional puts off, on which every commit"
                " rests: remove it, also from the environment"
            )


def normalize(root: object) -> str:
    """Return a root's URL in the one form that is stored: an absolute path, or scheme://…

    Raises:
        InvalidRootError: It is empty, has an unknown scheme, or more than a bucket and a path.
    """
    given = os.fspath(root) if isinstance(root, os.PathLike) else root
    text = given.rstrip("/") if isinstance(given, str) else ""
    if not text:
        raise InvalidRootError(f"{root!r} is not a root: give a folder or a URL such as s3://…")
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = os.path.abspath(unquote(parts.path))
    elif len(parts.scheme) <= 1:
        text = os.path.abspath(text)
    else:
        _check_url(parts)
    if "%" in text:
        # delta-rs writes to such a path and reads from the decoded one.
        raise InvalidRootError(f"{text!r} can't be a root: its name must be without '%'")
    return text


def _check_url(parts: SplitResult) -> None:
    # Its text may hold a password: never said.
    if parts.password is not None or parts.query or parts.fragment:
        raise InvalidRootError(
            f"a root of {parts.scheme}:// has more than a bucket and a path: give credentials as"
            " storage options, since a root's URL is stored"
        )
    if parts.scheme not in _SCHEMES or not parts.netloc:
        raise InvalidRootError(
            f"{parts.geturl()!r} is not a root: give a folder, or a URL such as s3://…, gs://… or"
            " abfss://…"
        )


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
    given = {name.lower(): text for name, text in options.items()}
    result: dict[str, Any] = {"use_listings_cache": False}
    result |= {ours: given[name] for name, ours in _S3_NAMES.items() if name in given}
    client = {ours: given[name] for name, ours in _S3_CLIENT_NAMES.items() if name in given}
    config: dict[str, Any] = {
        ours: _seconds(given[name]) for name, ours in _S3_TIMES.items() if name in given
    }
    if "max_retries" in given:
        config["retries"] = {"max_attempts": int(given["max_retries"])}
    return result | {"client_kwargs": client, "config_kwargs": config}


def _seconds(duration: str) -> float:
    found = _DURATION.fullmatch(duration.strip())
    if found is None:
        raise InvalidRootError(f"{duration!r} is not a duration: give one such as '30s'")
    return float(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The few file operations that are needed beside Delta's, on one root; all raise
    KafkaStorageError if it does not answer.

    Attributes:
        url: The root, normalized.
        options: Credentials.
    """

    url: str
    options: StorageOptions

    @contextmanager
    def _answering(self, verb: str, path: str) -> Iterator[None]:
        # A store's client raises errors of its own, which are no OSErrors.
        kinds = OSError if is_local(path) else Exception
        try:
            yield
        except (*_ABSENT, FileExistsError, KafkaStorageError, InvalidRootError):
            raise
        except kinds as error:
            raise KafkaStorageError(
                f"can't {verb} {path}: {reason(error, self.options)}"
            ) from self.options.shown(error)

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None if there is no such file."""
        try:
            with self._answering("read", path):
                if is_local(path):
                    return read_local(path)
                content: bytes = filesystem(path, self.options).cat_file(path)
                return content
        except _ABSENT:
            return None

    def pieces(self, path: str) -> Iterator[Any]:
        """Yield a file's bytes in order, the next in place of the last; whole if not local.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with self._answering("read", path):
            if is_local(path):
                yield from local_pieces(path)
            else:
                yield filesystem(path, self.options).cat_file(path)

    def write(self, path: str, content: Any, *, is_flushed: bool = True) -> None:
        """Write a file that nobody else writes; it is there as a whole or not at all."""
        self.write_all([(path, [content])], is_flushed=is_flushed)

    def write_all(
        self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool = True
    ) -> None:
        """Do the same with several files, whose contents come in pieces.

        Local ones are flushed when all are written: the first flush then pays for most of what
        the others would. If one fails, none of the local ones is there.
        """
        written: list[tuple[str, str]] = []
        try:
            for path, pieces in files:
                self._write(path, pieces, written)
            if is_flushed:
                flush(temporary for temporary, _ in written)
            while written:
                self._name(*written[-1])
                written.pop()
        finally:
            for temporary, _ in written:  # on a full disk their space is needed
                with suppress(OSError):  # the disk may be gone; what failed is raised already
                    os.unlink(temporary)

    def _name(self, temporary: str, path: str) -> None:
        try:
            with self._answering("write", path):
                os.rename(temporary, path)
        except (*_ABSENT, FileExistsError) as error:  # the disk went since it was flushed
            raise KafkaStorageError(f"can't write {path}: {reason(error)}") from error

    def _write(self, path: str, pieces: Iterable[Any], written: list[tuple[str, str]]) -> None:
        try:
            with self._answering("write", path):
                if is_local(path):
                    written.append((write_temporary(path, pieces, is_flushed=False), path))
                else:
                    filesystem(path, self.options).pipe_file(path, b"".join(pieces))
        except (*_ABSENT, FileExistsError) as error:
            raise KafkaStorageError(f"can't write {path}: {reason(error)}") from error

    def write_if_absent(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether this call wrote it.

        On a local disk its folder is made, but not the folder's parent.
        """
        try:
            with self._answering("write", path):
                if is_local(path):
                    return _link_local(path, content)
                filesystem(path, self.options).pipe_file(path, content, mode="create")
        except FileExistsError:
            # Its own first try, if the answer to that was lost: what stands there tells.
            return not is_local(path) and self.read(path) == content
        except KafkaStorageError:
            # Not every store says that it refused for the condition.
            found = None if is_local(path) else self.read(path)
            if found is None:
                raise
            return found == content
        except _ABSENT as error:
            raise KafkaStorageError(f"can't write {path}: {reason(error)}") from error
        return True

    def size(self, path: str) -> int | None:
        """Return a file's size, or None if there is no such file."""
        try:
            with self._answering("look at", path):
                if is_local(path):
                    return os.stat(path, follow_symlinks=False).st_size
                found: int = filesystem(path, self.options).info(path)["size"]
                return found
        except _ABSENT:
            return None

    def delete(self, path: str) -> None:
        """Delete a file or folder of ours, such as a probe's; no error if it is gone."""
        with suppress(FileNotFoundError), self._answering("delete", path):
            filesystem(path, self.options).rm(path, recursive=True)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            with self._answering("list", path):
                if is_local(path):  # A long Delta log has ten thousand.
                    return sorted(os.listdir(path))
                found = filesystem(path, self.options).ls(path, detail=False)
        except _ABSENT:
            return []
        return sorted(each.rstrip("/").rsplit("/", 1)[-1] for each in found)


def reason(error: BaseException, options: StorageOptions | None = None) -> str:
    """Return what went wrong on one line, without terminal codes and secrets."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = " ".join(_TERMINAL.sub("", str(error)).split()) or type(error).__name__
    return text if options is None else options.redact(text)


def _link_local(path: str, content: bytes) -> bool:
    # Never more than one folder: a root that was taken away must not be made anew.
    with suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    temporary = write_temporary(path, [content], is_flushed=True)
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
            raise KafkaStorageError(f"can't flush {path}: {reason(error)}") from error

"""Holds storage options: credentials and endpoints of roots, given once, as delta-rs names them.

Their values are never written to a table, a log line or an error: the class that carries them shows
names only. Credentials may be named, ``profile:NAME`` or ``env:PREFIX``: a name can be shown,
stored and sent to executors; each process looks up its credentials at each use, in its own
environment and files, and they stay in its memory.
"""

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError, InvalidRootError, KafkaStorageError
from kafka_on_spark.store.deadlines import is_local

NAMES_VARIABLE: Final = "KAFKA_ON_SPARK_STORAGE"
"""The variable that names credentials for URLs without any: ``s3://bucket=profile:NAME …``."""

CREDENTIALS: Final = "credentials"
"""The storage option that names credentials."""

_NAME: Final = re.compile(r"profile:[^\s:]+|env:[A-Za-z_][A-Za-z0-9_]*")
_PROFILE_NAMES: Final = ("aws_profile", "profile")
PROFILES_MAX: Final = 32
"""Profiles that this process keeps as it has read them."""

_FILES: Final = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
"""The variables that name the files of profiles, and where these are without."""


def check_name(name: object, what: str) -> None:
    """Check that `name` names credentials; the error does not show it, since it may be a secret."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidRequestError(
            f"what is given for {what} names no credentials: give profile:NAME (of AWS's shared"
            " files) or env:PREFIX (of variables such as PREFIX_AWS_ACCESS_KEY_ID)"
        )


def names_in_environment() -> dict[str, str]:
    """Return the names of credentials in the environment, by URL prefix."""
    names: dict[str, str] = {}
    for each in os.environ.get(NAMES_VARIABLE, "").split():
        prefix, _, name = each.partition("=")
        check_name(name, f"{prefix if name else 'an entry'} in the variable {NAMES_VARIABLE}")
        names[prefix] = name
    return names


def credentials_name_in(options: Mapping[str, str]) -> str | None:
    """Return the name of credentials in options (lower case), or None."""
    if options.get(CREDENTIALS) is not None:
        return options[CREDENTIALS]
    profile = next((options[each] for each in _PROFILE_NAMES if options.get(each)), None)
    return None if profile is None else f"profile:{profile}"


def resolve_credentials(given: Mapping[str, str], url: str) -> dict[str, str]:
    """Return options with the credentials that they name; options given explicitly win.

    Raises:
        KafkaStorageError: This process finds no such credentials, or others would be mixed in.
    """
    options = {name.lower(): text for name, text in given.items()}
    name = credentials_name_in(options)
    for each in (CREDENTIALS, *_PROFILE_NAMES):
        options.pop(each, None)
    if name is None:
        _check_unmixed(options, url, "given")
        return dict(given)
    kind, _, rest = name.partition(":")
    found = _from_environment(rest, url) if kind == "env" else _from_profile(rest, url)
    result = found | options
    _check_unmixed(result, url, name)
    return result


def _check_unmixed(options: Mapping[str, str], url: str, name: str) -> None:
    # delta-rs takes a missing token from the environment: that would mix two sets of credentials.
    given = _short(options)
    has_own = "access_key_id" not in given or "session_token" in given or "token" in given
    if not has_own and os.environ.get("AWS_SESSION_TOKEN"):
        raise KafkaStorageError(
            f"the environment's AWS_SESSION_TOKEN would be sent to {url} with the credentials"
            f" {name}: unset it, or give them a token of their own"
        )


def _from_environment(prefix: str, url: str) -> dict[str, str]:
    start = f"{prefix}_"
    found = {
        name.removeprefix(start).lower(): text
        for name, text in os.environ.items()
        if name.startswith(start) and text
    }
    if not found:
        raise KafkaStorageError(
            f"{url} has the credentials env:{prefix}, and no variable of this process begins with"
            f" {start}: set {start}AWS_ACCESS_KEY_ID and its like, on executors too"
        )
    return found


def _from_profile(profile: str, url: str) -> dict[str, str]:
    try:
        return _options_of(*_read_profile(profile, _stamps()))
    except LookupError as error:
        _read_profile.cache_clear()  # its keys have expired: somebody may mend it
        raise KafkaStorageError(
            f"{url} has the credentials profile:{profile}, {error.args[0]}: add it to"
            " ~/.aws/credentials, or to the files that AWS_SHARED_CREDENTIALS_FILE and"
            " AWS_CONFIG_FILE name, on executors too"
        ) from None


def _stamps() -> tuple[object, ...]:
    """Return what tells the files of profiles from others of their names."""
    return tuple(map(_stamp, _FILES.items()))


def _stamp(file: tuple[str, str]) -> tuple[object, ...]:
    path = os.path.expanduser(os.environ.get(*file))
    try:
        found = os.stat(path)
    except OSError:
        return (path,)
    return path, found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=PROFILES_MAX)
def _read_profile(profile: str, _stamps: tuple[object, ...]) -> tuple[Any, Mapping[str, Any]]:
    """Return botocore's credentials of a profile, and its other settings, as files of these stamps
    have them. Temporary keys botocore gets anew by itself, and says the same until then: each set
    of keys has a client of its own.

    Raises:
        LookupError: There is no such profile; its text says why. This is not kept: it may be added.
    """
    # In the function: botocore comes with the extra s3 only, and other roots need none of it. It
    # can move up once the package requires s3fs.
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise LookupError("which need the package s3fs that is not installed") from None
    try:
        session = Session(profile=profile)
        credentials: Any = session.get_credentials()
        config: Mapping[str, Any] = session.get_scoped_config()
    except BotoCoreError as error:
        raise _unreadable(error) from None
    if credentials is None:
        raise LookupError("which has no keys")
    return credentials, config


def _unreadable(error: Exception) -> LookupError:
    return LookupError(f"which can't be read ({type(error).__name__})")


def _options_of(credentials: Any, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of now."""
    from botocore.exceptions import BotoCoreError

    try:
        keys = credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise _unreadable(error) from None
    endpoint = str(config.get("endpoint_url", ""))
    found = {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_session_token": keys.token,
        "aws_region": config.get("region"),
        "aws_endpoint_url": endpoint,
        # A profile with an http:// endpoint opts in to plain HTTP.
        "aws_allow_http": "true" if endpoint.startswith("http://") else None,
    }
    return {name: str(text) for name, text in found.items() if text}


PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
}
"""The schemes that both delta-rs and fsspec know, and the package that fsspec needs."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}

# object_store's names of options (AmazonS3ConfigKey, GoogleConfigKey, AzureConfigKey) without the
# prefix that each may have, and fsspec's; of two for one the last counts.
_PREFIX: Final = re.compile("^(aws|google|azure(_storage)?)_")
_S3: Final = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "token": "token",
}
_S3_CLIENT: Final = {
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "default_region": "region_name",
    "region": "region_name",
}
_S3_TIMES: Final = {"timeout": "read_timeout", "connect_timeout": "connect_timeout"}
_GOOGLE: Final = {
    "application_credentials": "token",
    "service_account_path": "token",
    "service_account": "token",
    "service_account_key": "token",
}
_AZURE: Final = {
    "account_name": "account_name",
    "account_key": "account_key",
    "access_key": "account_key",
    "master_key": "account_key",
    "sas_token": "sas_token",
    "sas_key": "sas_token",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
    "authority_id": "tenant_id",
}


def _short(options: Mapping[str, str]) -> dict[str, str]:
    return {_PREFIX.sub("", name.lower()): text for name, text in options.items()}


def _renamed(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: given[name] for name, ours in names.items() if name in given}


def client_options(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return delta-rs's options as fsspec's file system for `scheme` takes them."""
    given = _short(options)
    result: dict[str, Any] = {"use_listings_cache": False}
    if scheme in ("s3", "s3a"):
        config: dict[str, Any] = {
            name: _seconds(text) for name, text in _renamed(given, _S3_TIMES).items()
        }
        if "max_retries" in given:
            config["retries"] = {"max_attempts": int(given["max_retries"])}
        client = _renamed(given, _S3_CLIENT)
        return result | _renamed(given, _S3) | {"client_kwargs": client, "config_kwargs": config}
    if scheme != "gs":
        return result | _renamed(given, _AZURE)
    found, name = _renamed(given, _GOOGLE), "service_account_key"
    if name in given:
        try:
            found["token"] = json.loads(given[name])
        except ValueError:  # its text is a secret: neither shown nor chained
            raise InvalidRootError(f"the storage option google_{name} is no JSON") from None
    return result | found


def _seconds(duration: str) -> float:
    found = _DURATION.fullmatch(duration.strip())
    if found is None:
        raise InvalidRootError(f"{duration!r} is not a duration: give one such as '30s'")
    return float(found[1]) * _SECONDS[found[2]]


# The allowed values of these options: any other value switches the conditional put off.
_OFF: Final = frozenset({"", "0", "false", "off", "no", "n"})
_SAFE: Final = {
    "allow_unsafe_rename": _OFF,
    "aws_s3_allow_unsafe_rename": _OFF,
    "mount_allow_unsafe_rename": _OFF,
    "aws_s3_locking_provider": frozenset({""}),
    "aws_conditional_put": frozenset({"", "etag"}),
    "conditional_put": frozenset({"", "etag"}),
}
_SECRET: Final = re.compile(
    "secret|token|password|sas|access_key(?!_id)|account_key|master_key|connection", re.IGNORECASE
)
_LOOKED_UP_MAX: Final = 512
"""Secrets that were looked up and are kept to be hidden: temporary keys become others each hour."""

# Any of these is an explicit credential, so named credentials from the environment are ignored.
_IDENTITY: Final = re.compile(
    "key|secret|token|profile|credential|sas|account|password|client_id|skip_"
)


class StorageOptions:
    """Credentials and endpoints, for all roots or by URL prefix.

    A mapping of option names to texts; a URL prefix maps to another such mapping, or to a name of
    credentials (``profile:NAME``, ``env:PREFIX``; inside a mapping the option `credentials`). The
    longest prefix of a URL decides. Options without a prefix apply to all other URLs, and their
    times and endpoint also to prefixes that have a name only. A URL without credentials takes those
    that the variable KAFKA_ON_SPARK_STORAGE names. Values never show in `repr`.

    Attributes:
        key: The same text for the same options, with their secrets: a key for what memory keeps.
    """

    def __init__(self, options: object = None) -> None:
        if options is None:
            options = {}
        if not isinstance(options, Mapping):
            # The value may be a secret: never shown.
            raise InvalidRequestError(
                f"storage_options can't be a {type(options).__name__}: give a mapping (a dict) of"
                " names and texts"
            )
        self._options = {str(name): each for name, each in options.items()}
        self.key: Final = repr(sorted(self._options.items(), key=repr))
        self._lock = threading.Lock()
        self._looked_up: dict[str, None] = {}  # secrets, the newest last
        for prefix, each in self._options.items():
            if _is_prefix(prefix) and not isinstance(each, Mapping):
                check_name(each, f"{prefix} in the storage options")
        for scope in self._scopes():
            check_safe(scope)
            for name, text in scope.items():
                if name.lower() == CREDENTIALS:
                    check_name(text, f"the storage option {CREDENTIALS}")
        check_safe(os.environ)

    def _scopes(self) -> list[Mapping[str, Any]]:
        nested = [each for each in self._options.values() if isinstance(each, Mapping)]
        return [*nested, self._unscoped()]

    def _unscoped(self) -> dict[str, Any]:
        return {
            name: each
            for name, each in self._options.items()
            if not (_is_prefix(name) or isinstance(each, Mapping))
        }

    def _scope(self, url: str) -> Mapping[str, Any]:
        prefix = longest_prefix(self._options, url)
        scope = self._unscoped() if prefix is None else self._options[prefix]
        if not isinstance(scope, Mapping):
            plain = {
                name: each for name, each in self._unscoped().items() if not _gives_identity(name)
            }
            return {**plain, CREDENTIALS: scope}
        if prefix is None and not any(map(_gives_identity, scope)):
            names = names_in_environment()
            named = longest_prefix(names, url)
            if named is not None:
                return {CREDENTIALS: names[named], **scope}
        return scope

    def for_url(self, url: str) -> dict[str, str]:
        """Return the options of one URL, as delta-rs takes them.

        Raises:
            KafkaStorageError: They name credentials that this process does not find.
            InvalidRootError: They, or the environment, switch the conditional put off.
        """
        if is_local(url):
            return {}
        check_safe(os.environ)  # again: it may have been changed since
        scope = {name: str(text) for name, text in self._scope(url).items()}
        options = resolve_credentials(scope, url)
        check_safe(options)
        with self._lock:
            for each in _secrets_of(options):
                self._looked_up.pop(each, None)
                self._looked_up[each] = None
            while len(self._looked_up) > _LOOKED_UP_MAX:
                del self._looked_up[next(iter(self._looked_up))]
        return options

    def credentials_name(self, url: str) -> str | None:
        """Return the name of one URL's credentials, ``profile:NAME`` or ``env:PREFIX``, or None if
        they are given explicitly, or not at all."""
        if is_local(url):
            return None
        scope = {name.lower(): str(text) for name, text in self._scope(url).items()}
        return credentials_name_in(scope)

    def __reduce__(self) -> tuple[Any, ...]:
        # An executor that unpickles it has another environment, and checks that again.
        return type(self), (self._options,)

    def redact(self, text: str) -> str:
        """Return `text` without the secrets that these options hold or have looked up."""
        with self._lock:
            looked_up = set(self._looked_up)
        secrets = looked_up.union(*map(_secrets_of, self._scopes()))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "[hidden]")
        return text

    def shown(self, error: BaseException) -> BaseException | None:
        """Return `error` to chain as a cause, or None if its text holds a secret."""
        return error if self.redact(str(error)) == str(error) else None

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self._options))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _secrets_of(options: Mapping[str, Any]) -> set[str]:
    return {
        str(text) for name, text in options.items() if _SECRET.search(name) and len(str(text)) > 7
    }


def _gives_identity(name: str) -> bool:
    return _IDENTITY.search(name.lower()) is not None


def _is_prefix(name: str) -> bool:
    return "://" in name or name.startswith("/")


def longest_prefix(prefixes: Iterable[str], url: str) -> str | None:
    """Return the longest of `prefixes` that `url` lies below, or None."""
    place = f"{_canonical_scheme(url)}/"
    return max(
        (
            prefix
            for prefix in prefixes
            if _is_prefix(prefix) and place.startswith(f"{_canonical_scheme(prefix.rstrip('/'))}/")
        ),
        key=len,
        default=None,
    )


def _canonical_scheme(url: str) -> str:
    return "s3" + url.removeprefix("s3a") if url.startswith("s3a:") else url


def check_safe(options: Mapping[str, Any]) -> None:
    """Check that no option switches the conditional put off.

    Raises:
        InvalidRootError: One does: two writers could both be told that they won.
    """
    for name, value in options.items():
        allowed = _SAFE.get(name.lower())
        if allowed is not None and str(value).strip().lower() not in allowed:
            raise InvalidRootError(
                f"the storage setting {name} switches conditional puts off, on which every commit"
                " rests: remove it, also from the environment"
            )

"""Holds storage options: credentials, endpoints and times of roots, by fsspec's names or those of a
store's own variables.

Their values are never written to a table, a log line or an error: the class that carries them shows
names only. Credentials may be named, ``profile:NAME`` or ``env:PREFIX``: a name can be shown,
stored and sent to executors; each process looks up its credentials at each use, in its own
environment and files, and they stay in its memory.
"""

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlsplit

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


_AZURE_IDENTITY: Final = ("connection_string", "account_key", "sas_token", "client_id")


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
    taken = _places_of(options, url)
    kept = {each: text for each, text in found.items() if not taken & _places_of([each], url)}
    result = kept | options
    _check_unmixed(result, url, name)
    return result


def _places_of(options: Iterable[str], url: str) -> set[str]:
    package = PACKAGES[urlsplit(url).scheme]
    places = _STORES[package][2]
    return {places[each] for each in _own(package, dict.fromkeys(options, ""))} - {""}


def _check_unmixed(options: Mapping[str, str], url: str, name: str) -> None:
    # Azure's client takes what is missing from its variables: that would mix two sets of
    # credentials. The others take all from there, or nothing.
    if PACKAGES[urlsplit(url).scheme] != "adlfs":
        return
    given = {name: value for name, value in client_options(url, options).items() if value}
    mixed = [each for each in _AZURE_IDENTITY if os.environ.get(f"AZURE_STORAGE_{each.upper()}")]
    if given.keys() & {*_AZURE_IDENTITY, "anon"} and (others := set(mixed) - given.keys()):
        raise KafkaStorageError(
            f"the environment's AZURE_STORAGE_{min(others).upper()} would be used for {url} with"
            f" the credentials {name}: unset it"
        )


def _from_environment(prefix: str, url: str) -> dict[str, str]:
    # Others may set variables that begin so, such as Kubernetes for a service's name.
    start, package = f"{prefix}_", PACKAGES[urlsplit(url).scheme]
    found = {
        option: text
        for name, text in os.environ.items()
        if name.startswith(start) and text
        if _own(package, {(option := name.removeprefix(start).lower()): text})
    }
    if not any(_gives_identity(each) and _places_of([each], url) for each in found):
        raise KafkaStorageError(
            f"{url} has the credentials env:{prefix}, and no variable of this process that begins"
            f" with {start} gives any of {_STORES[package][0]}: set {start}AWS_ACCESS_KEY_ID or"
            " what that store has in its place, on executors too"
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
    "hdfs": "hdfs-native",
}
"""The schemes of stores, and the package of each one's client, which is fsspec's."""

EXTRAS: Final = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure", "hdfs-native": "hdfs"}
"""Our extra that brings each of these packages."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_FLAGS: Final = dict.fromkeys(("1", "true", "on", "yes", "y"), True) | dict.fromkeys(
    ("0", "false", "off", "no", "n"), False
)


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"can't be {text!r}: give a duration such as '30s'")
    return float(found[1]) * _SECONDS[found[2]]


def _flag(text: str) -> bool:
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        raise ValueError(f"can't be {text!r}: give true or false")
    return found


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"can't be {text!r}: give a whole number")
    return int(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # its text is a secret: neither shown nor chained
        raise ValueError("is no JSON: give the text of a key file") from None


_KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "anon": _flag,
    "requester_pays": _flag,
    "is_virtual": _flag,
    "max_attempts": _count,
    "retry_total": _count,
    "read_timeout": _seconds,
    "connect_timeout": _seconds,
    "connection_timeout": _seconds,
    "sock_read": _seconds,
    "sock_connect": _seconds,
    "key_file": _json,
}
"""What the text becomes at a place of a client's arguments; at all others it stays one."""

# By places in the arguments of a store's client, with dots between, the options that go there:
# fsspec's names, those of the store's own variables and of other clients; the last given counts.
_S3: Final = {
    "key": "key access_key_id",
    "secret": "secret secret_access_key",
    "token": "token session_token",
    "anon": "anon skip_signature",
    "client_kwargs.endpoint_url": "endpoint endpoint_url",
    "client_kwargs.region_name": "default_region region region_name",
    "config_kwargs.read_timeout": "timeout",
    "config_kwargs.connect_timeout": "connect_timeout",
    "config_kwargs.retries.max_attempts": "max_retries",
    "is_virtual": "virtual_hosted_style_request",
    "requester_pays": "requester_pays",
    # `resolve_credentials` reads the first, `check_safe` allows one value of the others.
    "": "profile s3_allow_unsafe_rename s3_locking_provider",
}
_AZURE: Final = {
    "account_name": "account_name",
    "account_key": "account_key access_key master_key",
    "connection_string": "connection_string",
    "sas_token": "sas_token sas_key",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id authority_id",
    "anon": "anon skip_signature",
    "endpoint_url": "account_host endpoint endpoint_url",
    "settings.read_timeout": "timeout",
    "settings.connection_timeout": "connect_timeout",
    "settings.retry_total": "max_retries",
}
_GOOGLE: Final = {
    "token": "token application_credentials service_account_path service_account",
    "key_file": "service_account_key",
    "anon": "anon skip_signature",
    "endpoint_url": "storage_emulator_host base_url endpoint_url",
    "project": "project",
    "requester_pays": "requester_pays",
    "times.sock_read": "timeout",
    "times.sock_connect": "connect_timeout",
}
_S3_ALONE: Final = frozenset({"token", "endpoint_url", "endpoint"})
"""Options that are S3's alone where they have no URL's prefix: another store would else be sent a
session token of S3, or its own token be sent to S3's endpoint."""

_IDLE: Final = (
    f"{CREDENTIALS} allow_http conditional_put allow_unsafe_rename mount_allow_unsafe_rename"
)
"""Options of all stores that go nowhere: an endpoint says by itself whether it is HTTP."""


def _places(table: Mapping[str, str]) -> dict[str, str]:
    """Return the place of each option of a store."""
    places = (*table.items(), ("", _IDLE))
    return {name: place for place, names in places for name in names.split()}


_STORES: Final = {
    "s3fs": ("S3", re.compile("^aws_"), _places(_S3)),
    "adlfs": ("Azure", re.compile("^azure_(storage_)?"), _places(_AZURE)),
    "gcsfs": ("Google", re.compile("^google_"), _places(_GOOGLE)),
    # Its client reads Hadoop's own files and variables.
    "hdfs-native": ("HDFS", re.compile("^hdfs_"), _places({})),
}
"""By package: what a store is called, what its options may begin with, and their places."""


def _own(package: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return those of `options` that a store obeys, by names without what they may begin with."""
    _, prefix, places = _STORES[package]
    short = {prefix.sub("", name.lower()): text for name, text in options.items()}
    return {name: short[name] for name in places if name in short}


def _check_known(options: Iterable[str], url: str | None = None) -> None:
    """Check that a store obeys each option: the one of `url`, or any.

    Raises:
        InvalidRequestError: There is one that nothing would obey.
    """
    package = PACKAGES.get(url.partition(":")[0]) if url is not None else None
    packages = list(_STORES) if package is None else [package]
    for name in options:
        if not any(_own(each, {name: ""}) for each in packages):
            if package == "hdfs-native":
                raise InvalidRequestError(
                    f"{url} takes no options, and {name} is given: remove it, and give its client"
                    " HADOOP_CONF_DIR and the like, on executors too"
                )
            places = [item for each in packages for item in _STORES[each][2].items()]
            obeyed = dict.fromkeys(option for option, place in places if place)
            stores = " or ".join(_STORES[each][0] for each in packages)
            raise InvalidRequestError(
                f"the storage option {name} is none of {stores}, so nothing would obey it: give"
                f" some of {', '.join(obeyed)}"
            )


def client_options(url: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of `url` as the arguments of its store's client.

    Raises:
        InvalidRootError: One has a value that it can't have.
    """
    package = PACKAGES[urlsplit(url).scheme]
    result: dict[str, Any] = {"use_listings_cache": False}
    for name, text in _own(package, options).items():
        *above, last = _STORES[package][2][name].split(".")
        try:
            value = _KINDS.get(last, str)(text)
        except ValueError as error:
            raise InvalidRootError(f"the storage option {name} {error}") from None
        within = result
        for each in above:
            within = within.setdefault(each, {})
        within[last] = value
    result.pop("", None)
    if package == "hdfs-native":
        result["host"] = urlsplit(url).netloc
    return result | _account_in(url, result)


def _account_in(url: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the account, and the cloud, that abfss://container@account.dfs.core.windows.net/ has
    in itself: they win over an account's name in options, which may be meant for other URLs."""
    host = urlsplit(url).netloc.partition("@")[2]
    if not host:
        return {}
    account, _, cloud = host.partition(".")
    found = {"account_name": account}
    if cloud and "endpoint_url" not in options:
        found["endpoint_url"] = f"{account}.{cloud.replace('dfs.', 'blob.', 1)}"
    return found


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
_SECRET_PARTS: Final = re.compile(
    "(?:AccountKey|SharedAccessSignature|sig)=([^;&]+)", re.IGNORECASE
)
"""Of a connection string, or of a signature: a client may show them alone."""

_LOOKED_UP_MAX: Final = 512
"""Secrets that were looked up and are kept to be hidden: temporary keys become others each hour."""

# Any of these is an explicit credential, so named credentials from the environment are ignored.
_IDENTITY: Final = re.compile(
    "key|secret|token|profile|credential|sas|account(?!_host)|password|client_id|skip_|anon|connection_"
)


class StorageOptions:
    """Credentials, endpoints and times, for all roots or by URL prefix.

    A mapping of option names to texts (docs/clusters-and-stores.md lists them); a URL prefix maps
    to another such mapping, or to a name of credentials (``profile:NAME``, ``env:PREFIX``; inside a
    mapping the option `credentials`). The longest prefix of a URL decides. Options without a prefix
    apply to all other URLs, and their times and endpoint also to prefixes that have a name only. A
    URL without credentials takes those that the variable KAFKA_ON_SPARK_STORAGE names. Values never
    show in `repr`. An option that no store would obey is refused; one of another store is not used.

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
        self._options = _without_empty(options)
        self.key: Final = repr(sorted(self._options.items(), key=repr))
        self._lock = threading.Lock()
        self._looked_up: dict[str, None] = {}  # secrets, the newest last
        for prefix, each in self._options.items():
            _check_entry(prefix, each)
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
        unscoped = self._unscoped()
        if PACKAGES.get(urlsplit(url).scheme) != "s3fs":
            for name in [each for each in unscoped if each.lower() in _S3_ALONE]:
                del unscoped[name]
        scope = unscoped if prefix is None else self._options[prefix]
        if not isinstance(scope, Mapping):
            plain = {name: each for name, each in unscoped.items() if not _gives_identity(name)}
            return {**plain, CREDENTIALS: scope}
        if prefix is None and not any(map(_gives_identity, scope)):
            names = names_in_environment()
            named = longest_prefix(names, url)
            if named is not None:
                return {CREDENTIALS: names[named], **scope}
        return scope

    def for_url(self, url: str) -> dict[str, str]:
        """Return the options of one URL, by the names they were given or looked up by.

        Raises:
            KafkaStorageError: They name credentials that this process does not find.
            InvalidRootError: They, or the environment, switch the conditional put off.
        """
        if is_local(url) or url.startswith("hdfs:"):
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
        # A client may show one as a part of a URL; a variable may be no valid text.
        encoded = {code(each, errors="replace") for each in secrets for code in (quote, quote_plus)}
        for secret in sorted(secrets | encoded, key=len, reverse=True):
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


def _without_empty(options: Mapping[Any, Any]) -> dict[str, Any]:
    """Return options without those whose text is empty: such a one counts as not given."""
    return {
        str(name): _without_empty(each) if isinstance(each, Mapping) else each
        for name, each in options.items()
        if each != "" or _is_prefix(str(name)) or str(name).lower() == CREDENTIALS
    }


def _check_entry(name: str, value: object) -> None:
    if not _is_prefix(name):
        _check_known([name])
    elif isinstance(value, Mapping):
        _check_known(map(str, value), name)
    else:
        check_name(value, f"{name} in the storage options")


def _secrets_of(options: Mapping[str, Any]) -> set[str]:
    whole = [str(text) for name, text in options.items() if _SECRET.search(name)]
    parts = [part for text in whole for part in _SECRET_PARTS.findall(text)]
    return {secret for secret in (*whole, *parts) if len(secret) > 7}


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

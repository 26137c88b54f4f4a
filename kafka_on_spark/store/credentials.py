"""Looks up credentials by name, ``profile:NAME`` or ``env:PREFIX``, in the process that uses them.

A name can be shown, stored and sent to executors; each process looks up its credentials in its own
environment and files, and they stay in its memory.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError, KafkaStorageError

NAMES_VARIABLE: Final = "KAFKA_ON_SPARK_STORAGE"
"""The variable that names credentials for URLs without any: ``s3://bucket=profile:NAME …``."""

OPTION: Final = "credentials"
"""The storage option that names credentials."""

_NAME: Final = re.compile(r"profile:[^\s:]+|env:[A-Za-z_][A-Za-z0-9_]*")
_KEY_NAMES: Final = ("aws_access_key_id", "access_key_id")
_TOKEN_NAMES: Final = ("aws_session_token", "session_token", "aws_token", "token")
_PROFILE_NAMES: Final = ("aws_profile", "profile")
PROFILES_MAX: Final = 32
"""Profiles that this process keeps as it has read them."""

_FILES: Final = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
"""The variables that name the files of profiles, and where these are without."""


def check_name(name: object, what: str) -> None:
    """Check that `name` names credentials; the error does not show it, since it may be a secret.

    Raises:
        InvalidRequestError: It is no such name.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidRequestError(
            f"what is given for {what} names no credentials: give profile:NAME (of AWS's shared"
            " files) or env:PREFIX (of variables such as PREFIX_AWS_ACCESS_KEY_ID)"
        )


def names_in_environment() -> dict[str, str]:
    """Return the names of credentials in the environment, by URL prefix.

    Raises:
        InvalidRequestError: The variable is no list of prefixes and names.
    """
    names: dict[str, str] = {}
    for each in os.environ.get(NAMES_VARIABLE, "").split():
        prefix, _, name = each.partition("=")
        check_name(name, f"{prefix if name else 'an entry'} in the variable {NAMES_VARIABLE}")
        names[prefix] = name
    return names


def credentials_name_in(options: Mapping[str, str]) -> str | None:
    """Return the name of credentials in options (lower case), or None."""
    if options.get(OPTION) is not None:
        return options[OPTION]
    profile = next((options[each] for each in _PROFILE_NAMES if options.get(each)), None)
    return None if profile is None else f"profile:{profile}"


def resolve_credentials(given: Mapping[str, str], url: str) -> dict[str, str]:
    """Return options with the credentials that they name; options given explicitly win.

    Raises:
        KafkaStorageError: This process finds no such credentials, or others would be mixed in.
    """
    options = {name.lower(): text for name, text in given.items()}
    name = credentials_name_in(options)
    for each in (OPTION, *_PROFILE_NAMES):
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
    names = {each.lower() for each in options}
    if names.isdisjoint(_KEY_NAMES) or not names.isdisjoint(_TOKEN_NAMES):
        return
    if os.environ.get("AWS_SESSION_TOKEN"):
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
    """Return the options of now.

    Raises:
        LookupError: The keys have expired, and there are no new ones.
    """
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

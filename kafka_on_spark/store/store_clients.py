"""Translates delta-rs's storage options into those of fsspec's file systems.

Apart from `roots`, since each store has a table of names of its own.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRootError

PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
}
"""The schemes that both delta-rs and fsspec know, and the package that fsspec needs."""

_S3: Final = {
    "aws_access_key_id": "key",
    "access_key_id": "key",
    "aws_secret_access_key": "secret",
    "secret_access_key": "secret",
    "aws_session_token": "token",
    "aws_token": "token",
    "session_token": "token",
    "token": "token",
}
_S3_CLIENT: Final = {
    "aws_endpoint": "endpoint_url",
    "aws_endpoint_url": "endpoint_url",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "aws_default_region": "region_name",
    "default_region": "region_name",
    "aws_region": "region_name",
    "region": "region_name",
}
_S3_TIMES: Final = {"timeout": "read_timeout", "connect_timeout": "connect_timeout"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}

# object_store's names of credentials (GoogleConfigKey, AzureConfigKey).
_GOOGLE_PATHS: Final = (
    "google_service_account",
    "google_service_account_path",
    "service_account",
    "service_account_path",
    "google_application_credentials",
    "application_credentials",
)
_GOOGLE_KEYS: Final = ("google_service_account_key", "service_account_key")
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
_AZURE_PREFIX: Final = re.compile("^azure_(storage_)?")


def client_options(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return delta-rs's options as fsspec's file system for `scheme` takes them.

    Raises:
        InvalidRootError: A time is no duration, or a key is no JSON.
    """
    given = {name.lower(): text for name, text in options.items()}
    if scheme in ("s3", "s3a"):
        return _s3(given)
    if scheme == "gs":
        return {"use_listings_cache": False, **_google(given)}
    short = {_AZURE_PREFIX.sub("", name): text for name, text in given.items()}
    named = {_AZURE[name]: text for name, text in short.items() if name in _AZURE}
    return {"use_listings_cache": False, **named}


def _s3(given: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {"use_listings_cache": False}
    result |= {ours: given[name] for name, ours in _S3.items() if name in given}
    client = {ours: given[name] for name, ours in _S3_CLIENT.items() if name in given}
    config: dict[str, Any] = {
        ours: _seconds(given[name]) for name, ours in _S3_TIMES.items() if name in given
    }
    if "max_retries" in given:
        config["retries"] = {"max_attempts": int(given["max_retries"])}
    return result | {"client_kwargs": client, "config_kwargs": config}


def _google(given: Mapping[str, str]) -> dict[str, Any]:
    for name in _GOOGLE_KEYS:
        if name in given:
            try:
                return {"token": json.loads(given[name])}
            except ValueError:  # its text is a secret: neither shown nor chained
                raise InvalidRootError(f"the storage option {name} is no JSON") from None
    paths = [given[name] for name in _GOOGLE_PATHS if name in given]
    return {"token": paths[0]} if paths else {}


def _seconds(duration: str) -> float:
    found = _DURATION.fullmatch(duration.strip())
    if found is None:
        raise InvalidRootError(f"{duration!r} is not a duration: give one such as '30s'")
    return float(found[1]) * _SECONDS[found[2]]

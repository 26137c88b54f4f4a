"""Translates a root's storage options for Hadoop's S3 client, so that Spark itself can read it.

Names and addresses only: a JVM looks a profile up for itself, as our own processes do. Keys from
`env:PREFIX` or from options, which it can't look up, are never passed to it: a query's plan would
show them.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from kafka_on_spark.storage.access.storage_options import StorageOptions

PROFILE_PROVIDER: Final = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
_ENDPOINTS: Final = ("aws_endpoint_url", "endpoint_url", "aws_endpoint", "endpoint")
_REGIONS: Final = ("aws_region", "region", "aws_default_region", "default_region")
_VIRTUAL: Final = ("aws_virtual_hosted_style_request", "virtual_hosted_style_request")


def bucket_prefix(url: str) -> str | None:
    """Return the prefix of Hadoop's settings for a root's bucket; None if it is not on S3."""
    parts = urlsplit(url)
    return f"fs.s3a.bucket.{parts.netloc}." if parts.scheme in ("s3", "s3a") else None


def hadoop_options(urls: Iterable[str], options: StorageOptions) -> dict[str, str]:
    """Return Hadoop's settings for the buckets of roots (normalized); only S3 has any.

    Raises:
        KafkaStorageError: The options name credentials that this process does not find.
    """
    found: dict[str, str] = {}
    for url in urls:
        prefix = bucket_prefix(url)
        if prefix is not None:
            settings = _bucket_settings(url, options)
            found |= {f"{prefix}{name}": text for name, text in settings.items()}
    return found


def _bucket_settings(url: str, options: StorageOptions) -> dict[str, str]:
    given = {name.lower(): text for name, text in options.for_url(url).items()}
    settings: dict[str, str] = {}
    endpoint = _first(given, _ENDPOINTS)
    if endpoint is not None:
        settings["endpoint"] = endpoint
        is_virtual = (_first(given, _VIRTUAL) or "").lower() in ("1", "true", "on", "yes", "y")
        settings["path.style.access"] = "false" if is_virtual else "true"
    region = _first(given, _REGIONS)
    if region is not None:
        settings["endpoint.region"] = region
    kind, _, name = (options.credentials_name(url) or "").partition(":")
    if kind == "profile":
        settings["aws.credentials.provider"] = PROFILE_PROVIDER
        settings["auth.profile.name"] = name
    return settings


def _first(given: dict[str, str], names: Iterable[str]) -> str | None:
    return next((given[name] for name in names if given.get(name)), None)

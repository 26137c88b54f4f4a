"""What Hadoop's S3 client is told of a root, in its own words, so that Spark itself can read it.

Names and addresses only: a JVM looks a profile up for itself, as our own processes do, and the
keys of `env:PREFIX` or of options, which it could not look up, are never handed to it: they would
stand in a query's plan.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from kafka_on_spark.storage.options import StorageOptions

PROFILE_PROVIDER: Final = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
_ENDPOINTS: Final = ("aws_endpoint_url", "endpoint_url", "aws_endpoint", "endpoint")
_REGIONS: Final = ("aws_region", "region", "aws_default_region", "default_region")
_VIRTUAL: Final = ("aws_virtual_hosted_style_request", "virtual_hosted_style_request")


def bucket_prefix(url: str) -> str | None:
    """Return what Hadoop's settings of a root's bucket begin with; None if it is not on S3."""
    parts = urlsplit(url)
    return f"fs.s3a.bucket.{parts.netloc}." if parts.scheme in ("s3", "s3a") else None


def hadoop_options(urls: Iterable[str], options: StorageOptions) -> dict[str, str]:
    """Return the settings of the buckets of roots (normalized); none for what is no S3.

    Raises:
        KafkaStorageError: They name credentials that are not to be found in this process.
    """
    found: dict[str, str] = {}
    for url in urls:
        prefix = bucket_prefix(url)
        if prefix is not None:
            settings = _of_bucket(url, options)
            found |= {f"{prefix}{name}": text for name, text in settings.items()}
    return found


def _of_bucket(url: str, options: StorageOptions) -> dict[str, str]:
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

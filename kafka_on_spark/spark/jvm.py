"""Spark's JVM as Python reaches it: the only module that uses private attributes of pyspark.

pyspark has no public call that asks a JVM for a system property, for Hadoop's configuration or for
the jars that it sends to executors. The three private names are `SparkContext._jvm`,
`SparkContext._jsc` and `SparkSession._jsparkSession`. A public call for each would end this module.

Spark itself reads roots by Hadoop's file systems and not by our clients. Whether it can is checked
before a query runs: a JVM that can't read a store says so in a hundred lines, after minutes, in the
middle of a scan.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.log.view_table import hadoop_url
from kafka_on_spark.store.storage_options import StorageOptions, client_options

_PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
}
"""Hadoop's own, which go with one version of it."""

PROFILE_PROVIDER: Final = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"

_INSTEAD: Final = 'or read with format("kafka_on_spark"), which needs neither'
_REASON_LETTERS_MAX: Final = 400
# A package of another version, or half of one, fails only when it is used.
_WRONG_JARS: Final = re.compile("ClassNotFound|NoClassDefFound|NoSuchMethod|NoSuchField")


def reader_settings(
    spark: SparkSession, roots: Sequence[str], options: StorageOptions, instead: str = _INSTEAD
) -> dict[str, str]:
    """Return the settings by which a scan finds `roots` (normalized).

    A bucket with settings in the session itself gets none. `instead`: what else a caller can do.

    Raises:
        InvalidRequestError: Spark has no client for a root's store.
        KafkaStorageError: This process finds no credentials for a root.
    """
    conf = hadoop_configuration(spark)
    for url in {_scheme(url): url for url in sorted(map(hadoop_url, roots))}.values():
        try:
            jvm_of(spark).org.apache.hadoop.fs.FileSystem.getFileSystemClass(_scheme(url), conf)
        except Py4JJavaError:
            raise InvalidRequestError(_lacking(spark, url, instead)) from None
    unsaid = [url for url in roots if _is_unsaid(conf, url)]
    return hadoop_options(unsaid, options)


def check_files(
    spark: SparkSession,
    urls: Sequence[str],
    settings: Mapping[str, str],
    options: StorageOptions,
) -> None:
    """Check that Spark reaches the first of the files (normalized URLs) on each bucket, or raise
    InvalidRequestError. Files on disks are not checked: this process has read them, and the JVM
    sees the same disks."""
    conf = hadoop_configuration(spark)
    for name, text in settings.items():
        conf.set(name, text)
    first = {urlsplit(url)[:2]: hadoop_url(url) for url in reversed(urls) if "://" in url}
    for url in first.values():
        path = jvm_of(spark).org.apache.hadoop.fs.Path(jvm_of(spark).java.net.URI(url))
        try:
            path.getFileSystem(conf).getFileStatus(path)
        except Py4JJavaError as error:
            said = options.redact(str(error.java_exception.toString()))
            wrong_jars = _WRONG_JARS.search(said) is not None
            problem = _lacking(spark, url) if wrong_jars else _unreachable(url, said)
            raise InvalidRequestError(problem) from None


def _unreachable(url: str, said: str) -> str:
    # The message contains the file's long name twice.
    reason = said.splitlines()[0].replace(f"{url}: ", "", 1)[:_REASON_LETTERS_MAX]
    parts = urlsplit(url)
    prefix = bucket_prefix(url)
    what = f"spark.hadoop.{prefix}* (docs/clusters-and-stores.md)" if prefix else "spark.hadoop.*"
    return (
        f"Spark itself can't read {parts.scheme}://{parts.netloc} ({reason}): tell its session"
        f" the endpoint and the credentials by {what}, {_INSTEAD}"
    )


def _lacking(spark: SparkSession, url: str, instead: str = _INSTEAD) -> str:
    scheme = _scheme(url)
    package = "give it Hadoop's package for that and its credentials"
    if scheme in _PACKAGES:
        version = jvm_of(spark).org.apache.hadoop.util.VersionInfo.getVersion()
        package = (
            f"start it with spark.jars.packages={_PACKAGES[scheme]}:{version} (the version of its"
            " Hadoop) and credentials"
        )
    return f"this Spark can't scan {scheme}:// itself: {package}, {instead}"


def _scheme(url: str) -> str:
    return url.split(":", 1)[0]


def _is_unsaid(conf: Any, url: str) -> bool:
    prefix = bucket_prefix(url)
    return prefix is None or bool(conf.getPropsWithPrefix(prefix).isEmpty())


def bucket_prefix(url: str) -> str | None:
    """Return the prefix of Hadoop's settings for a root's bucket; None if it is not on S3."""
    parts = urlsplit(url)
    return f"fs.s3a.bucket.{parts.netloc}." if parts.scheme in ("s3", "s3a") else None


def hadoop_options(urls: Iterable[str], options: StorageOptions) -> dict[str, str]:
    """Return Hadoop's settings for the buckets of roots (normalized); only S3 has any.

    Names and addresses only: a JVM looks a profile up for itself, as our own processes do. Keys
    from `env:PREFIX` or from options, which it can't look up, are never passed to it: a query's
    plan would show them.

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
    given = client_options(url, options.for_url(url))
    client, settings = given.get("client_kwargs", {}), dict[str, str]()
    if client.get("endpoint_url"):
        settings["endpoint"] = client["endpoint_url"]
        settings["path.style.access"] = "false" if given.get("is_virtual") else "true"
    if client.get("region_name"):
        settings["endpoint.region"] = client["region_name"]
    kind, _, name = (options.credentials_name(url) or "").partition(":")
    if kind == "profile":
        settings["aws.credentials.provider"] = PROFILE_PROVIDER
        settings["auth.profile.name"] = name
    return settings


def is_by_spark_submit() -> bool:
    """Return whether spark-submit started this process, and so chose its settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def resolved_jars() -> list[str]:
    """Return the JVM's `spark.jars`, to which Spark's resolver has added the jars of packages."""
    assert SparkContext._jvm is not None, "a JVM was started"
    named = SparkContext._jvm.java.lang.System.getProperty("spark.jars", "")
    return [jar for jar in named.split(",") if jar]


def jars_of_executors(session: SparkSession) -> list[str]:
    """Return the URLs of the jars that a session sends to executors."""
    jars = session.sparkContext._jsc.sc().listJars()
    return [jars.apply(place) for place in range(jars.size())]


def send_jar(session: SparkSession, jar: str) -> None:
    session.sparkContext._jsc.addJar(jar)


def jvm_of(session: SparkSession) -> Any:
    jvm = session.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    return jvm


def hadoop_configuration(session: SparkSession) -> Any:
    """Return a copy of Hadoop's configuration as the session's queries have it."""
    return session._jsparkSession.sessionState().newHadoopConf()


def has_ended(session: SparkSession) -> bool:
    """Return whether a session can run nothing any more: it was stopped, or its JVM is gone."""
    context = session.sparkContext
    if context._jsc is None:
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # whatever py4j says of a JVM that does not answer
        return True

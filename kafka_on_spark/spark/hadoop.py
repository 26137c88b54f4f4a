"""Roots as Spark itself reaches them: by Hadoop's file systems, which know nothing of our clients.

Apart from `views`: asked before a query is, since what a JVM says of a store that it can't read
is a hundred lines, after minutes, in the middle of a scan.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.storage.hadoop_options import bucket_prefix, hadoop_options
from kafka_on_spark.storage.options import StorageOptions
from kafka_on_spark.storage.view_table import hadoop_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
}
"""Hadoop's own, which go with one version of it."""

_INSTEAD: Final = 'or read with format("kafka_on_spark"), which needs neither'
_REASON_LETTERS_MAX: Final = 400
# A package of another version, or half of one, fails only when it is used.
_WRONG_JARS: Final = re.compile("ClassNotFound|NoClassDefFound|NoSuchMethod|NoSuchField")


def reader_settings(
    spark: "SparkSession", roots: Sequence[str], options: StorageOptions
) -> dict[str, str]:
    """Return what a scan has to be told of roots (normalized), so that Spark finds them.

    Buckets of which the session says anything itself are left as it says.

    Raises:
        InvalidRequestError: Spark has no client for a root's store.
        KafkaStorageError: A root's credentials are not to be found in this process.
    """
    conf = _configuration(spark)
    _check_schemes(spark, conf, roots)
    unsaid = [url for url in roots if _is_unsaid(conf, url)]
    return hadoop_options(unsaid, options)


def check_files(
    spark: "SparkSession",
    urls: Sequence[str],
    settings: Mapping[str, str],
    options: StorageOptions,
) -> None:
    """Check that Spark reaches the first of files (normalized URLs) on each bucket.

    Disks are left out: this process, which has looked at them, and the JVM see the same.

    Raises:
        InvalidRequestError: It does not.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    conf = _configuration(spark)
    for name, text in settings.items():
        conf.set(name, text)
    first = {urlsplit(url)[:2]: hadoop_url(url) for url in reversed(urls) if "://" in url}
    for url in first.values():
        path = _jvm(spark).org.apache.hadoop.fs.Path(_jvm(spark).java.net.URI(url))
        try:
            path.getFileSystem(conf).getFileStatus(path)
        except Py4JJavaError as error:
            said = options.redact(str(error.java_exception.toString()))
            wrong_jars = _WRONG_JARS.search(said) is not None
            problem = _lacking(spark, url) if wrong_jars else _unreachable(url, said)
            raise InvalidRequestError(problem) from None


def _unreachable(url: str, said: str) -> str:
    # The file's name, as long as it is, stands in it twice.
    reason = said.splitlines()[0].replace(f"{url}: ", "", 1)[:_REASON_LETTERS_MAX]
    parts = urlsplit(url)
    prefix = bucket_prefix(url)
    what = f"spark.hadoop.{prefix}* (docs/clusters-and-stores.md)" if prefix else "spark.hadoop.*"
    return (
        f"Spark itself can't read {parts.scheme}://{parts.netloc} ({reason}): tell its session"
        f" where that is and who it is by {what}, {_INSTEAD}"
    )


def _check_schemes(spark: "SparkSession", conf: Any, roots: Sequence[str]) -> None:
    from py4j.protocol import Py4JJavaError

    of_scheme = {_scheme(url): url for url in sorted(map(hadoop_url, roots))}
    for scheme, url in of_scheme.items():
        try:
            _jvm(spark).org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except Py4JJavaError:
            raise InvalidRequestError(_lacking(spark, url)) from None


def _lacking(spark: "SparkSession", url: str) -> str:
    scheme = _scheme(url)
    package = "give it Hadoop's package for that and its credentials"
    if scheme in _PACKAGES:
        version = _jvm(spark).org.apache.hadoop.util.VersionInfo.getVersion()
        package = (
            f"start it with spark.jars.packages={_PACKAGES[scheme]}:{version} (the version of its"
            " Hadoop) and credentials"
        )
    return f"this Spark can't scan {scheme}:// itself: {package}, {_INSTEAD}"


def _scheme(url: str) -> str:
    return url.split(":", 1)[0]


def _is_unsaid(conf: Any, url: str) -> bool:
    prefix = bucket_prefix(url)
    return prefix is None or bool(conf.getPropsWithPrefix(prefix).isEmpty())


def _configuration(spark: "SparkSession") -> Any:
    """Return a copy of Hadoop's configuration as the session's queries have it."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def _jvm(spark: "SparkSession") -> Any:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    return jvm

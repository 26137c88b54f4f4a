"""Spark's JVM as Python reaches it: the only module that uses private attributes of pyspark.

pyspark has no public call that asks a JVM for a system property, for Hadoop's configuration or for
the jars that it sends to executors. The three private names are `SparkContext._jvm`,
`SparkContext._jsc` and `SparkSession._jsparkSession`. A public call for each would end this module.
"""

import os
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


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
    """Send executors one more jar."""
    session.sparkContext._jsc.addJar(jar)


def jvm_of(session: SparkSession) -> Any:
    """Return the JVM's packages, as py4j names them."""
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

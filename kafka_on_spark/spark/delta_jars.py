"""Delta's jars, checked before Spark loads a class of them.

The launcher checks the jars of a checkout when it fetches them. An installed package has Spark
fetch them: when its JVM starts, before there is a session. So the JVM is started first, the files
that Spark's resolver found are held against the list, and only then is the session made.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext

from kafka_on_spark.errors import WrongJarError

PACKAGES: Final = "spark.jars.packages"


def start_checked(settings: Mapping[str, str], conf: Path) -> None:
    """Start Spark's JVM with `settings`, if this process has none, and check what it fetched.

    `conf`: the folder that lists the packages and the checksums of their jars.

    Raises:
        WrongJarError: A jar is another one than was tried. The JVM is ended again.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # somebody else's, who chose its jars
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    try:
        check_jars(resolved_jars(settings), conf, is_complete=_has_ours_only(settings, conf))
    except WrongJarError:
        _end_jvm()
        raise


def resolved_jars(settings: Mapping[str, str]) -> list[Path]:
    """Return the jars that Spark's resolver found for packages, as its JVM names them."""
    assert SparkContext._jvm is not None, "it was started"
    named = SparkContext._jvm.java.lang.System.getProperty("spark.jars", "")
    given = {Path(jar).name for jar in _listed(settings.get("spark.jars", ""))}
    paths = (Path(jar.removeprefix("file://")) for jar in _listed(named))
    return [path for path in paths if path.name not in given and path.is_file()]


def check_jars(jars: Iterable[Path], conf: Path, *, is_complete: bool) -> None:
    """Check that each of `jars` has the content that is listed under its name.

    `is_complete`: nobody asked for other packages, so a name that is not listed is wrong, too.

    Raises:
        WrongJarError: One is another.
    """
    lines = (conf / "delta-jars.sha256").read_text(encoding="utf-8").splitlines()
    expected = {name: digest for digest, name in map(str.split, lines)}
    for jar in jars:
        if jar.name not in expected and not is_complete:
            continue
        found, allowed = hashlib.sha256(jar.read_bytes()).hexdigest(), expected.get(jar.name)
        if found != allowed:
            raise WrongJarError(
                f"Spark fetched {jar} with the SHA-256 {found}, where {allowed or 'no such jar'} is"
                f" allowed, and was not started: delete it and {jar.parents[1] / 'cache'}, start"
                " again, and if it stays so, ask who runs the repository that"
                " spark.jars.ivySettings names"
            )


def _has_ours_only(settings: Mapping[str, str], conf: Path) -> bool:
    """Return whether no other packages are fetched than Delta's."""
    lines = (conf / "delta-jars.conf").read_text(encoding="utf-8").splitlines()
    return any(line.split() == [PACKAGES, settings.get(PACKAGES)] for line in lines)


def _listed(jars: str) -> list[str]:
    return [jar for jar in jars.split(",") if jar]


def _end_jvm() -> None:
    """End the JVM, so that the next session starts one of its own."""
    gateway = SparkContext._gateway
    assert gateway is not None, "it was started"
    gateway.shutdown()
    gateway.proc.stdin.close()  # what the JVM ends by
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None

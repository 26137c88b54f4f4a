"""Delta's jars: their checksums are checked before Spark loads a class of them.

The launcher checks the jars of a checkout when it fetches them. For an installed package Spark
fetches them, when its JVM starts and before there is a session. So this module starts the JVM
first, compares the files that Spark's resolver found with the list, and only then lets the session
be made.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kafka_on_spark.errors import WrongJarError
from kafka_on_spark.spark.jvm import end_jvm, is_jvm_given, resolved_jars, start_jvm

PACKAGES: Final = "spark.jars.packages"


def start_checked(settings: Mapping[str, str], conf: Path) -> None:
    """Start Spark's JVM with `settings`, if this process has none, and check what it fetched.

    `conf`: the folder that lists the packages and the checksums of their jars.

    Raises:
        WrongJarError: A jar differs from the one that was tested. The JVM is ended again.
    """
    if is_jvm_given():
        return  # this module did not choose its jars
    start_jvm(settings)
    try:
        check_jars(_fetched_jars(settings), conf, is_complete=_has_ours_only(settings, conf))
    except WrongJarError:
        end_jvm()
        raise


def _fetched_jars(settings: Mapping[str, str]) -> list[Path]:
    """Return the jars that Spark's resolver fetched for packages."""
    given = {Path(jar).name for jar in settings.get("spark.jars", "").split(",")}
    paths = (Path(jar.removeprefix("file://")) for jar in resolved_jars())
    return [path for path in paths if path.name not in given and path.is_file()]


def check_jars(jars: Iterable[Path], conf: Path, *, is_complete: bool) -> None:
    """Check that each of `jars` has the content that is listed under its name.

    `is_complete`: no other packages were asked for, so a name that is not listed is wrong, too.

    Raises:
        WrongJarError: A jar has other content, or is not listed.
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
                " again, and if it stays so, ask the owner of the repository that"
                " spark.jars.ivySettings names"
            )


def _has_ours_only(settings: Mapping[str, str], conf: Path) -> bool:
    """Return whether Delta's packages are the only ones that Spark fetches."""
    lines = (conf / "delta-jars.conf").read_text(encoding="utf-8").splitlines()
    return any(line.split() == [PACKAGES, settings.get(PACKAGES)] for line in lines)

"""Makes the SparkSession of notebooks, tests and jobs, with one set of settings.

Under `spark-submit.sh` Spark has already read the settings of `conf/`, and the user's, which win.
Anywhere else (pytest, a notebook, an installed wheel) this module passes the same settings and
Delta's jars when it starts Spark.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.spark.versions import MISSING, check_versions, is_local, line_of

try:
    import pyspark
except ImportError as error:
    raise InvalidRequestError(MISSING) from error
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from kafka_on_spark.spark.jvm import (
    is_by_spark_submit,
    jars_of_executors,
    resolved_jars,
    send_jar,
)

PACKAGES: Final = "spark.jars.packages"

_PACKAGE: Final = Path(__file__).parents[1]
_CHECKOUT: Final = _PACKAGE.parent
_IS_CHECKOUT: Final = (_CHECKOUT / "spark-submit.sh").is_file()

# Installed, the folder lies in the package: see package-dir in pyproject.toml.
_CONF: Final = (_CHECKOUT if _IS_CHECKOUT else _PACKAGE) / "conf"

# Ours and the user's list are joined: Spark alone would take one of the two.
_LISTS: Final = ("spark.jars", PACKAGES, "spark.jars.excludes")


def build_session(app_name: str = "kafka_on_spark", **settings: object) -> SparkSession:
    """Return a session that can read our tables; the running session, if there is one. `settings`
    win over ours, under Spark's names: `**{"spark.master": "local[2]"}`. InvalidRequestError:
    Spark's or Delta's version is another than those that work."""
    check_versions(delta=True)
    _put_packages_on_path()
    builder = SparkSession.builder.appName(app_name)
    chosen = session_settings(settings)
    _leave_the_zip_out(chosen.get("spark.master"))
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if PACKAGES in chosen:
        _send_packages(session)
    return session


def _leave_the_zip_out(master: str | None) -> None:
    """Have Spark's Python processes import pyspark where it is installed, and not from the zip in
    Spark's home, which holds no compiled code: each would compile it anew, for more than a second.

    SPARK_HOME becomes a folder of links without the zip, in a virtual environment, as the launcher
    makes it. A home of the user's stays. So does Spark's own where another Python or other machines
    may need the zip.
    """
    home, spark = Path(sys.prefix, "spark"), Path(pyspark.__file__).parent
    is_our_python = os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    is_ours = is_local(master) and is_our_python and sys.prefix != sys.base_prefix
    if not is_ours or "SPARK_HOME" in os.environ or is_by_spark_submit():
        return
    for each in (spark / name for name in ("bin", "conf", "jars", "sbin")):
        with suppress(OSError):  # another process has made it, or this one may not: Spark is slower
            home.mkdir(exist_ok=True)
            if each.exists():
                (home / each.name).symlink_to(each)
    if (home / "bin" / "spark-submit").is_file():
        os.environ["SPARK_HOME"] = str(home)


def _send_packages(session: SparkSession) -> None:
    """Send executors the jars of packages as well.

    Spark resolves packages when its JVM starts, and joins their jars with `spark.jars`. A later
    value of `spark.jars` replaces both everywhere but in the driver's own class path.
    """
    if is_local(session.sparkContext.master):
        return
    sent = {jar.rsplit("/", 1)[-1] for jar in jars_of_executors(session)}
    for jar in resolved_jars():
        if jar.rsplit("/", 1)[-1] not in sent:
            send_jar(session, jar)


def register_data_source(session: SparkSession) -> None:
    """Make ``format("kafka_on_spark")`` known to `session` itself.

    Spark looks for data sources once in the life of its JVM, in a Python process. If that process
    is killed, or has another path, Spark finds none from then on (DATA_SOURCE_NOT_FOUND). A data
    source that Spark has found itself stays as it is.
    """
    # In the function: it brings Arrow, which a session does not need.
    from kafka_on_spark.spark.data_source import KafkaOnSparkDataSource

    try:
        session.dataSource.register(KafkaOnSparkDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def session_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Return `given` as text, over the settings that Spark has not been told yet."""
    theirs = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
    if is_by_spark_submit():
        # Its --conf and --master must win over a file of ours.
        return theirs
    ours = _conf_settings() | _delta_jars()
    joined = {
        name: f"{ours[name]},{theirs[name]}" for name in _LISTS if name in ours and name in theirs
    }
    return _with_their_hadoop(ours | theirs | joined, theirs)


def _with_their_hadoop(settings: dict[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return settings that exclude no package of Hadoop's that `theirs` name.

    Spark has Hadoop's client, and Delta would bring a second one; Spark has no hadoop-aws.
    """
    name = "spark.jars.excludes"
    if name not in settings or "org.apache.hadoop:" not in theirs.get("spark.jars.packages", ""):
        return settings
    narrow = settings[name].replace("org.apache.hadoop:*", "org.apache.hadoop:hadoop-client*")
    return settings | {name: narrow}


def read_settings(file: Path) -> dict[str, str]:
    """Return the settings of a properties file in the form that Spark documents for its own."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and line[0] != "#")
    return {name: value for name, value in (pair for pair in pairs if len(pair) == 2)}


def _conf_settings() -> dict[str, str]:
    """Return our settings, without those that the user's own Spark configuration sets."""
    ours = read_settings(_CONF / "spark-defaults.conf")
    spark_home = Path(os.environ.get("SPARK_HOME", _CONF))
    folder = Path(os.environ.get("SPARK_CONF_DIR", spark_home / "conf"))
    theirs = folder / "spark-defaults.conf"
    if folder == _CONF or not theirs.is_file():
        return ours
    return {name: ours[name] for name in ours.keys() - read_settings(theirs).keys()}


def _delta_jars() -> dict[str, str]:
    """Return the jars that the launcher fetched, if they are for this Spark; without them, settings
    for Spark's resolver: Delta publishes a jar of one version for each line of Spark."""
    delta = f"delta-spark_{line_of(pyspark.__version__)}_"
    jars = sorted((_CHECKOUT / ".venv" / "ivy" / "jars").glob("*.jar")) if _IS_CHECKOUT else []
    if any(delta in jar.name for jar in jars):
        return {"spark.jars": ",".join(map(str, jars))}
    packages = read_settings(_CONF / "delta-jars.conf")
    packages[PACKAGES] = re.sub(r"delta-spark_[\d.]+_", delta, packages[PACKAGES])
    return packages | {"spark.jars.ivySettings": (_CONF / "ivysettings.xml").as_uri()}


def _put_packages_on_path() -> None:
    """Let this process import the packages of a checkout, and Spark's Python workers, which take
    their path from the environment in which Spark's JVM starts."""
    if not _IS_CHECKOUT:
        return
    folders = [str(_CHECKOUT), str(_PACKAGE / "spark" / "discovery")]
    sys.path[:] = _with_folders(folders, sys.path)
    inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(_with_folders(folders, inherited))


def _with_folders(folders: list[str], path: Iterable[str]) -> list[str]:
    rest = list(path)
    return [*(folder for folder in folders if folder not in rest), *rest]

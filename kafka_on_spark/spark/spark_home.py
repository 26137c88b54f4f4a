"""Chooses a SPARK_HOME without the zip of pyspark, so that Spark's Python processes start fast.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python process that it
starts. A zip holds no compiled code: each process compiles what it imports, for a second of
processor time, while a query waits for it. The same package is installed beside the zip. So this
module makes a folder of links to the rest of Spark's home, in `.venv/spark`; the launcher makes the
same one. Spark ends the need for it when it prefers an installed pyspark to the zip, or ships
compiled code in it.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyspark

from kafka_on_spark.spark.jvm import is_by_spark_submit
from kafka_on_spark.spark.masters import is_local

LINKED: Final = ("bin", "conf", "jars", "sbin")


def choose_spark_home(settings: Mapping[str, str]) -> None:
    """Set SPARK_HOME to the folder of links for the Spark that this process is about to start.

    Only in a virtual environment, which holds the folder. A SPARK_HOME of the user's stays. Spark's
    own stays where the zip may be needed: by another Python of the user's, which may have no
    pyspark, or by a cluster that Spark sends the zip to (YARN). The launcher knows neither, and may
    have set the folder of links then.
    """
    if is_by_spark_submit():
        return
    spark, spark_home = Path(pyspark.__file__).parent, Path(sys.prefix, "spark")
    given = os.environ.get("SPARK_HOME")
    if _is_zip_needed(settings):
        if given == str(spark_home):
            os.environ["SPARK_HOME"] = str(spark)
    elif given is None and sys.prefix != sys.base_prefix and link_spark_home(spark_home, spark):
        os.environ["SPARK_HOME"] = str(spark_home)


def _is_zip_needed(settings: Mapping[str, str]) -> bool:
    is_our_python = os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    return (
        not is_local(settings.get("spark.master"))
        or not is_our_python
        or "spark.pyspark.python" in settings
    )


def link_spark_home(spark_home: Path, spark: Path) -> bool:
    """Make the folder `spark_home` of links into the folder `spark`; return whether it is complete.

    Where this process may not write, it returns False, and Spark starts slowly.
    """
    try:
        spark_home.mkdir(exist_ok=True)
        for name in LINKED:
            link, target = spark_home / name, spark / name
            if not target.exists():
                continue  # `conf` exists only if the user has made it
            if not link.is_symlink() or link.readlink() != target:
                # Another process may read or make the link at the same time.
                fresh = spark_home / f".{name}-{uuid4().hex}"
                fresh.symlink_to(target)
                fresh.replace(link)
    except OSError:
        return False
    return (spark_home / "bin" / "spark-submit").is_file()

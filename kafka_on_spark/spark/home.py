"""A home for Spark without the zip of pyspark that its Python processes would import.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python process that it
starts. A zip has no compiled code: each process compiles what it imports, for a second of the
processor's time, while a query waits for it, though the same package is installed beside the zip.
So Spark is shown a folder of links to what it needs of its own. The launcher makes the same one.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

LINKED: Final = ("bin", "conf", "jars", "sbin")


def choose_home(settings: Mapping[str, str]) -> None:
    """Name such a home to the Spark that this process is about to start, where it may have one.

    Only in a virtual environment, whose folder it is put in: a system's is not ours to write to. A
    home of the user's stays, and so does Spark's where its zip is of use: to a Python of the
    user's, which may have no pyspark, and to a cluster that the zip may be sent to (YARN). The
    launcher, which does not know of either, may have named ours then.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    import pyspark

    spark, home = Path(pyspark.__file__).parent, Path(sys.prefix, "spark")
    given = os.environ.get("SPARK_HOME")
    if _is_zip_needed(settings):
        if given == str(home):
            os.environ["SPARK_HOME"] = str(spark)
    elif given is None and sys.prefix != sys.base_prefix and is_made(home, spark):
        os.environ["SPARK_HOME"] = str(home)


def _is_zip_needed(settings: Mapping[str, str]) -> bool:
    master = settings.get("spark.master", "")
    is_local = master == "local" or master.startswith("local[")
    is_our_python = os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    return not is_local or not is_our_python or "spark.pyspark.python" in settings


def is_made(home: Path, spark: Path) -> bool:
    """Make `home` of links into the folder `spark`, if need be; return whether it is there.

    Where nothing may be written, Spark starts as slowly as it does without.
    """
    try:
        home.mkdir(exist_ok=True)
        for name in LINKED:
            link, target = home / name, spark / name
            if not target.exists():
                continue  # a configuration is there only if the user has made one
            if not link.is_symlink() or link.readlink() != target:
                # Another process may look, or make it, at the same time.
                fresh = home / f".{name}-{uuid4().hex}"
                fresh.symlink_to(target)
                fresh.replace(link)
    except OSError:
        return False
    return (home / "bin" / "spark-submit").is_file()

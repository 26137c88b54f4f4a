"""An installed package has Spark fetch Delta's jars.

The session is made in a process of its own, as where no launcher has fetched any jar. Its resolver
is given a copy of the launcher's cache, and needs no network.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.launcher.projects import ROOT

CACHE = ROOT / ".venv" / "ivy" / "cache"
STARTING = """
import sys
from pathlib import Path
from kafka_on_spark.spark import session
session._CHECKOUT = Path({nowhere!r})  # where no jars were fetched
try:
    made = session.build_session(**{{"spark.jars.ivy": {ivy!r}, "spark.ui.enabled": False}})
except Exception as error:
    print(type(error).__name__, error)
    sys.exit(3)
print("rows", made.range(3).count(), made.conf.get("spark.sql.extensions"))
made.stop()
"""

pytestmark = pytest.mark.skipif(
    not CACHE.is_dir(), reason="the launcher's cache of jars, .venv/ivy/cache, was removed"
)


@pytest.fixture
def ivy(tmp_path):
    folder = tmp_path / "ivy"
    shutil.copytree(CACHE, folder / "cache")
    for file in folder.rglob("*.properties"):
        # Ivy notes where a jar was put.
        file.write_text(file.read_text().replace(str(CACHE), str(folder / "cache")))
    return folder


def start(ivy, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    code = STARTING.format(nowhere=str(tmp_path), ivy=str(ivy))
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=kept | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.long
def test_jars_that_spark_fetches_are_used(ivy, tmp_path):
    done = start(ivy, tmp_path)

    said = done.stdout.splitlines()[-1]
    assert said == "rows 3 io.delta.sql.DeltaSparkSessionExtension", done.stderr

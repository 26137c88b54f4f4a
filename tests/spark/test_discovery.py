"""What a Python that lacks our packages says of the data source: Spark looks for it there, too."""

import subprocess
import sys

import pytest

from tests.launcher.projects import ROOT

PATH = [str(ROOT), str(ROOT / "kafka_on_spark" / "spark" / "discovery")]
ASKING = """
import sys
sys.path[:0] = {path}
sys.modules.update(dict.fromkeys({lacking}))  # None: as if it was not installed
from pyspark_kafka_on_spark import DefaultSource
print(DefaultSource.name())
DefaultSource({{}})
"""


@pytest.mark.parametrize("lacking", ["pyarrow", "kafka_on_spark"])
def test_a_python_that_lacks_a_package_says_so_and_what_to_do(lacking):
    code = ASKING.format(path=PATH, lacking=[lacking])

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout == "kafka_on_spark\n", done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert f"{sys.executable}, has no {lacking}" in sentence
    assert "import kafka_on_spark before the session is made, or set PYSPARK_PYTHON" in sentence


def test_a_python_that_has_all_gives_the_data_source():
    code = ASKING.format(path=PATH, lacking=[]) + "print(DefaultSource.__module__)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout.split() == ["kafka_on_spark", "kafka_on_spark.spark.data_source"]

"""The quickstart on S3, which fails all the while: pytest tests/integration --s3-rows 2000

Not in CI, which drives clusters on S3 without Spark (tests/cluster/roots/test_clusters_on_s3.py). Its whole output,
its files, Spark's event log and all objects are looked through for the secret key.
"""

import os

import pytest

from kafka_on_spark.store.roots import StorageOptions, filesystem
from kafka_on_spark.store.storage_options import NAMES_VARIABLE
from tests.integration.quickstart.quickstart_runs import QuickstartProcess
from tests.store.s3.faulty_s3 import CANARY, Kind, faulty_s3

pytestmark = pytest.mark.integration

STORM = (Kind.BUSY, Kind.ERROR_AFTER, Kind.SLOW, Kind.ERROR_BEFORE, Kind.DROP_AFTER)


def test_the_quickstart_loses_a_bucket_on_a_failing_store_and_nothing_else(
    request, tmp_path, monkeypatch
):
    rows = request.config.getoption("--s3-rows", default=None)
    if rows is None:
        pytest.skip("minutes: asked for by --s3-rows")
    with faulty_s3() as store:
        names = {name: text for name, text in store.options().items() if name.startswith("AWS_")}
        for name, text in {**names, "TIMEOUT": "5s", "CONNECT_TIMEOUT": "5s"}.items():
            monkeypatch.setenv(f"QUICK_{name}", text)
        monkeypatch.setenv(NAMES_VARIABLE, f"s3://{store.bucket}=env:QUICK")
        (tmp_path / "events").mkdir()
        run = QuickstartProcess(
            tmp_path / "run",
            "--root", f"s3://{store.bucket}/quick", "--rows", str(rows), "--partitions", "4",
            spark={"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(tmp_path / "events")},
        )  # fmt: skip
        store.storm, store.storm_every = STORM, 97
        code = run.finish(wait_s_max=1800)
        store.recover()

        assert code == 0, run.output
        assert run.output.count("checked: ") == 5
        assert "no record was lost or doubled" in run.output
        assert {*STORM} <= {*store.struck}
        assert CANARY not in run.output
        files = filesystem(f"s3://{store.bucket}", StorageOptions())
        paths = files.find(f"s3://{store.bucket}")
        assert len(paths) > 100
        assert not [path for path in paths if CANARY.encode() in files.cat_file(path)]
    local = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    for path in local:
        with open(path, "rb") as file:
            assert CANARY.encode() not in file.read(), path

"""SPARK_HOME without the zip of pyspark: when it is chosen, and that it is made once."""

import os
import sys
from pathlib import Path

import pyspark
import pytest

from kafka_on_spark.spark.spark_home import choose_spark_home, link_spark_home

LOCAL = {"spark.master": "local[2]"}


@pytest.fixture(autouse=True)
def started_by_nobody(monkeypatch, tmp_path):
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that what a test sets goes with it
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


@pytest.fixture
def spark(tmp_path):
    folder = tmp_path / "site-packages" / "pyspark"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "spark-submit").touch()
    (folder / "jars").mkdir()
    (folder / "python" / "lib").mkdir(parents=True)
    (folder / "python" / "lib" / "pyspark.zip").touch()
    return folder


def test_local_session_gets_a_home_without_the_zip(tmp_path):
    choose_spark_home(LOCAL)

    assert os.environ["SPARK_HOME"] == str(tmp_path / "spark")
    assert (tmp_path / "spark" / "jars").is_dir()
    assert not (tmp_path / "spark" / "python").exists()


def test_a_python_that_is_no_virtual_environments_gets_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))

    choose_spark_home(LOCAL)

    assert "SPARK_HOME" not in os.environ
    assert not (tmp_path / "spark").exists()


@pytest.mark.parametrize(
    "settings, variables",
    [
        ({"spark.master": "yarn"}, {}),
        ({"spark.master": "local-cluster[2,1,1024]"}, {}),
        ({}, {}),
        (LOCAL | {"spark.pyspark.python": "/their/python"}, {}),
        (LOCAL, {"PYSPARK_PYTHON": "/their/python"}),
        (LOCAL, {"SPARK_HOME": "/their/spark"}),
        (LOCAL, {"PYSPARK_GATEWAY_PORT": "1"}),
    ],
)
def test_what_is_chosen_already_or_may_need_the_zip_stays(monkeypatch, settings, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    choose_spark_home(settings)

    assert os.environ.get("SPARK_HOME") == variables.get("SPARK_HOME")


def test_home_that_the_launcher_named_is_given_up_where_the_zip_may_be_needed(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")

    choose_spark_home(LOCAL)

    assert os.environ["SPARK_HOME"] == str(Path(pyspark.__file__).parent)


def test_where_nothing_may_be_written_spark_keeps_its_home(monkeypatch, tmp_path):
    (tmp_path / "spark").touch()

    choose_spark_home(LOCAL)

    assert "SPARK_HOME" not in os.environ


def test_home_that_is_there_is_left_alone_and_a_stale_link_replaced(tmp_path, spark):
    folder = tmp_path / "home"
    assert link_spark_home(folder, spark)
    before = (folder / "bin").lstat().st_ino
    (folder / "jars").unlink()
    (folder / "jars").symlink_to(tmp_path / "gone")

    assert link_spark_home(folder, spark)

    assert (folder / "bin").lstat().st_ino == before
    assert (folder / "jars").readlink() == spark / "jars"
    assert sorted(each.name for each in folder.iterdir()) == ["bin", "jars"]


def test_folder_that_is_no_spark_is_not_taken_for_one(tmp_path):
    assert not link_spark_home(tmp_path / "home", tmp_path / "nothing")

"""Which settings a session is started with; no Spark is."""

import os
import re
import sys

import pytest

from kafka_on_spark.spark import session
from kafka_on_spark.spark.session import read_settings, session_settings

DELTA = "io.delta.sql.DeltaSparkSessionExtension"


@pytest.fixture(autouse=True)
def started_by_nobody(monkeypatch):
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def jars(monkeypatch, tmp_path):
    folder = tmp_path / ".venv" / "ivy" / "jars"
    folder.mkdir(parents=True)
    (folder / "io.delta_delta-spark_4.2_2.13-4.4.0.jar").touch()
    monkeypatch.setattr(session.pyspark, "__version__", "4.2.7")
    monkeypatch.setattr(session, "_CHECKOUT", tmp_path)
    return folder


def test_session_of_a_notebook_gets_the_settings_and_jars_of_the_launcher(jars):
    settings = session_settings({})

    assert settings["spark.sql.extensions"] == DELTA
    assert settings["spark.jars"] == str(next(jars.iterdir()))
    assert "spark.jars.packages" not in settings


def test_given_settings_win_and_truth_is_written_as_spark_reads_it(jars):
    settings = session_settings({"spark.sql.extensions": "mine", "spark.ui.enabled": False})

    assert settings["spark.sql.extensions"] == "mine"
    assert settings["spark.ui.enabled"] == "false"


def test_given_jars_are_joined_with_ours(jars):
    settings = session_settings({"spark.jars": "mine.jar"})

    assert settings["spark.jars"] == f"{next(jars.iterdir())},mine.jar"


def test_another_spark_gets_delta_s_jar_for_its_own_line(monkeypatch, jars):
    monkeypatch.setattr(session.pyspark, "__version__", "4.1.4")

    settings = session_settings({})

    assert "spark.jars" not in settings
    assert re.fullmatch(r"io\.delta:delta-spark_4\.1_2\.13:[\d.]+", settings["spark.jars.packages"])


def test_packages_of_hadoops_that_are_given_are_not_excluded_with_delta_s_client(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(session, "_CHECKOUT", tmp_path)

    usual = session_settings({})["spark.jars.excludes"].split(",")
    given = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:1", "spark.jars.excludes": "a:b"}
    excluded = session_settings(given)["spark.jars.excludes"].split(",")

    assert "org.apache.hadoop:*" in usual
    assert "org.apache.hadoop:*" not in excluded
    assert {"org.apache.hadoop:hadoop-client*", "a:b"} <= {*excluded}
    assert {*usual} - {*excluded} == {"org.apache.hadoop:*"}


def test_under_spark_submit_only_what_is_given_is_set(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")

    assert session_settings({"spark.x": 1}) == {"spark.x": "1"}


@pytest.mark.parametrize("variable, folder", [("SPARK_CONF_DIR", "."), ("SPARK_HOME", "conf")])
def test_spark_configuration_of_the_users_own_wins(monkeypatch, tmp_path, variable, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "spark-defaults.conf").write_text("spark.master yarn\n")
    monkeypatch.setenv(variable, str(tmp_path))

    settings = session_settings({})

    assert "spark.master" not in settings  # Spark reads it from there by itself.
    assert settings["spark.sql.extensions"] == DELTA


def test_workers_find_the_checkout_and_the_data_source(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setattr(sys, "path", ["/theirs"])

    session._put_packages_on_path()
    once = os.environ["PYTHONPATH"]
    session._put_packages_on_path()

    root, discovery, theirs = once.split(os.pathsep)
    assert theirs == "/theirs"
    assert discovery.startswith(f"{root}{os.sep}kafka_on_spark")
    assert os.environ["PYTHONPATH"] == once
    assert sys.path == [root, discovery, "/theirs"]


def test_settings_files_are_read_as_spark_reads_them(tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("# a comment\n\nspark.a  1 2\nspark.b=x=y\n  spark.c: z\nspark.empty\n")

    assert read_settings(file) == {"spark.a": "1 2", "spark.b": "x=y", "spark.c": "z"}


LOCAL = "local[2]"


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """A virtual environment; variables that are set in it go with the test."""
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_local_session_gets_a_home_without_the_zip_of_pyspark(environment):
    for _ in range(2):
        session._leave_the_zip_out(LOCAL)

    assert os.environ["SPARK_HOME"] == str(environment / "spark")
    assert (environment / "spark" / "jars").is_dir()
    assert not (environment / "spark" / "python").exists()


@pytest.mark.parametrize(
    "master, variables",
    [
        ("yarn", {}),
        ("local-cluster[2,1,1024]", {}),
        (None, {}),
        (LOCAL, {"PYSPARK_PYTHON": "/their/python"}),
        (LOCAL, {"SPARK_HOME": "/their/spark"}),
        (LOCAL, {"PYSPARK_GATEWAY_PORT": "1"}),
    ],
)
def test_a_home_that_is_chosen_already_or_may_need_the_zip_stays(
    environment, monkeypatch, master, variables
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    session._leave_the_zip_out(master)

    assert os.environ.get("SPARK_HOME") == variables.get("SPARK_HOME")


def test_where_nothing_may_be_written_spark_keeps_its_home(environment):
    (environment / "spark").touch()

    session._leave_the_zip_out(LOCAL)

    assert "SPARK_HOME" not in os.environ

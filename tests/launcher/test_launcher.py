"""The launcher, in a copy of the project whose `.venv` is made of stubs: nothing is installed."""

import shutil
import sys
from hashlib import sha256

import pytest

from tests.launcher.projects import Project, script, touch

DRIVERS_PYTHON = "spark.pyspark.driver.python"


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_job_and_its_arguments_reach_spark_submit_as_they_are(project):
    started = project.start("--name", "x y", "job.py", "--jars", "", "--conf", "spark.jars=z")

    assert started.code == 0
    job = started.arguments.index("job.py")
    assert started.arguments[job:] == ["job.py", "--jars", "", "--conf", "spark.jars=z"]
    assert started.value_of("--name") == "x y"


@pytest.mark.parametrize("command", ["job.py", "pytest", "python"])
def test_everything_runs_with_the_same_python_settings_and_path(project, command):
    environment = project.start(
        command, PYTHONPATH="/theirs", SPARK_HOME="/other/spark", PYSPARK_DRIVER_PYTHON="jupyter"
    ).environment

    assert environment["PYSPARK_PYTHON"] == str(project.venv / "bin" / "python")
    # Spark has executors run data sources by this one, wherever it is set.
    assert "PYSPARK_DRIVER_PYTHON" not in environment
    assert environment["SPARK_HOME"] == str(project.lean_home)
    assert (project.lean_home / "bin").readlink() == project.spark_home / "bin"
    assert environment["SPARK_CONF_DIR"] == str(project.root / "conf")
    discovery = project.root / "kafka_on_spark" / "spark" / "discovery"
    assert environment["PYTHONPATH"] == f"{project.root}:{discovery}:/theirs"


@pytest.mark.parametrize(
    "arguments, variables",
    [
        (["--master", "yarn", "job.py"], {}),
        (["--conf", "spark.master=yarn", "job.py"], {}),
        (["--properties-file", "theirs.conf", "job.py"], {}),
        (["job.py"], {"PYSPARK_PYTHON": "/their/python"}),
        (["python"], {"SPARK_CONF_DIR": "/their/conf"}),
    ],
)
def test_where_the_zip_of_pyspark_may_be_needed_it_is_there(project, arguments, variables):
    environment = project.start(*arguments, **variables).environment

    assert environment["SPARK_HOME"] == str(project.spark_home)


@pytest.mark.parametrize("options", [["--properties-file", "theirs.conf"], []])
def test_drivers_python_is_the_users_if_a_file_of_theirs_names_one(project, tmp_path, options):
    theirs = touch(tmp_path / "theirs" / "spark-defaults.conf")
    for file in (theirs, project.root / "theirs.conf"):
        file.write_text(f"{DRIVERS_PYTHON} /usr/bin/python3\n")
    folder = {} if options else {"SPARK_CONF_DIR": str(theirs.parent)}

    started = project.start(*options, "job.py", **folder)

    assert not [each for each in started.arguments if each.startswith(DRIVERS_PYTHON)]


def test_it_can_be_called_by_a_link_from_another_folder(project, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "link").symlink_to("../a project/spark-submit.sh")

    started = project.start("job.py", script="bin/link", cwd=tmp_path)

    assert started.lines[0] == str(tmp_path)
    assert started.environment["SPARK_CONF_DIR"] == str(project.root / "conf")


# fmt: off
USERS_JARS = [
    pytest.param(["--jars", "mine.jar"],                         id="option"),
    pytest.param(["--conf", "spark.jars=mine.jar"],              id="setting"),
    pytest.param(["--verbose", "--jars", "mine.jar"],            id="after a switch"),
    pytest.param(["--properties-file", "theirs.conf"],           id="in a file"),
]
# fmt: on


@pytest.mark.parametrize("options", USERS_JARS)
def test_users_jars_are_joined_with_ours(project, options):
    (project.root / "theirs.conf").write_text("# theirs\nspark.jars   mine.jar\n")

    started = project.start(*options, "job.py")

    assert started.value_of("--jars").split(",") == [*project.jars, "mine.jar"]
    assert not any(argument.startswith("spark.jars=") for argument in started.arguments)


def test_users_settings_file_wins_and_ours_fills_in(project):
    started = project.start("--properties-file", "theirs.conf", "job.py")

    # Spark reads SPARK_CONF_DIR's file for what this one does not say.
    assert started.value_of("--properties-file") == "theirs.conf"
    assert "--load-spark-defaults" in started.arguments


# fmt: off
MASTERS = [
    pytest.param([],                                       "127.0.0.1", id="none named"),
    pytest.param(["--master", "local[2]"],                 "127.0.0.1", id="local"),
    pytest.param(["--master", "spark://host:7077"],        None,        id="cluster"),
    pytest.param(["--master", "spark://127.0.0.1:7077"],   "127.0.0.1", id="cluster of this machine"),
]
# fmt: on


@pytest.mark.parametrize("options, address", MASTERS)
def test_only_a_local_session_keeps_to_this_machines_own_address(project, options, address):
    assert project.start(*options, "job.py").environment.get("SPARK_LOCAL_IP") == address


def test_users_java_is_taken_if_it_is_17_or_later(project, tmp_path):
    project.java("21", tmp_path / "jdk" / "bin")

    started = project.start("job.py", JAVA_HOME=str(tmp_path / "jdk"))

    assert started.environment["JAVA_HOME"] == str(tmp_path / "jdk")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", None])
def test_java_home_that_is_too_old_or_gone_gives_way_to_the_paths_java(project, tmp_path, version):
    if version:
        project.java(version, tmp_path / "jdk" / "bin")

    started = project.start("job.py", JAVA_HOME=str(tmp_path / "jdk"))

    assert started.code == 0
    assert "JAVA_HOME" not in started.environment


@pytest.mark.parametrize("version", ["1.8.0_392", None])
def test_without_a_java_of_17_or_later_ours_is_taken(project, version):
    (project.tools / "java").unlink()
    if version:
        project.java(version, project.tools)
    shutil.copy(project.root / "conf" / "jre.lock", project.venv / "finished")

    started = project.start("job.py")

    assert started.environment["JAVA_HOME"] == str(project.venv / "jre")


def test_no_fitting_python_is_one_sentence(project):
    shutil.rmtree(project.venv)
    script(project.tools / "python3.11", "#!/usr/bin/env bash\nexit 127\n")

    started = project.start("job.py")

    assert started.code == 1
    assert started.error == (
        "spark-submit.sh: found no Python 3.11 or later on the PATH: install one, or name it with"
        " PYTHON=/path/to/python.\n"
    )


def test_named_python_that_does_not_fit_is_one_sentence(project):
    shutil.rmtree(project.venv)

    started = project.start("job.py", PYTHON="/no/such/python")

    assert started.code == 1
    assert started.error == (
        "spark-submit.sh: PYTHON=/no/such/python is not Python 3.11 or later: name one that is, or"
        " unset PYTHON.\n"
    )


# Stands for a Python that makes a .venv in which pip fails as `complaint` says.
FAILING_PYTHON = """#!/usr/bin/env bash
case "$*" in
  "-m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  *" install "*) echo "{complaint}" >&2; exit 1 ;;
esac
"""


# fmt: off
COMPLAINTS = [
    pytest.param("NewConnectionError: Temporary failure in name resolution", "check the connection",            id="no network"),
    pytest.param("OSError: [Errno 28] No space left on device",              "a disk is full",                  id="disk full"),
    pytest.param("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES",            "see {log}, and start again",      id="anything else"),
]
# fmt: on


@pytest.mark.parametrize("complaint, advice", COMPLAINTS)
def test_failed_set_up_is_one_sentence_that_says_what_to_do(project, complaint, advice):
    shutil.rmtree(project.venv)
    script(project.tools / "python3.11", FAILING_PYTHON.format(complaint=complaint))

    started = project.start("job.py")

    assert started.code == 1
    *progress, sentence = started.error.splitlines()
    assert sentence.startswith("spark-submit.sh: pip could not install the packages")
    assert advice.format(log=project.venv / "set-up.log") in sentence
    assert len(progress) == 2, progress


def test_jobs_start_without_what_tests_need_and_tests_install_it_on_top(project):
    script(project.tools / "python3.11", FAILING_PYTHON.format(complaint="x"))
    (project.venv / "finished" / "requirements.lock").unlink()
    shutil.copy(project.root / "conf" / "run.lock", project.venv / "finished")

    assert project.start("job.py").error == ""
    assert "Installing the packages (conf/requirements.lock)" in project.start("pytest").error
    assert (project.venv / "ivy" / "jars" / "a.jar").exists()


@pytest.mark.parametrize(
    "option", [["--packages", "a:b:1"], ["--conf", "spark.jars.packages=a:b:1"]]
)
def test_packages_that_the_user_names_are_looked_for_where_deltas_jars_are(project, option):
    named = f"spark.jars.ivySettings=file://{project.root}/conf/ivysettings.xml".replace(" ", "%20")

    assert named in project.start(*option, "job.py").arguments
    theirs = ["--conf", "spark.jars.ivySettings=theirs.xml"]
    assert named not in project.start(*option, *theirs, "job.py").arguments
    assert named not in project.start("job.py").arguments


@pytest.mark.parametrize("name", ["requirements.lock", "delta-jars.conf", "delta-jars.sha256"])
def test_step_whose_file_has_changed_is_taken_again(project, name):
    script(project.tools / "python3.11", FAILING_PYTHON.format(complaint="x"))
    with (project.root / "conf" / name).open("a") as file:
        file.write("# changed\n")

    started = project.start("job.py")

    step = "Installing the packages" if name == "requirements.lock" else "Fetching Delta's jars"
    assert step in started.error


# Stands for .venv's Python: what the launcher hands it on standard input is run.
PYTHON = f"""#!/usr/bin/env bash
[ "$1" != - ] || exec {sys.executable} "$@"
echo started
"""
# Stands for spark-submit, which fetches jars into the folder that it is told.
FETCHER = """#!/usr/bin/env bash
for argument in "$@"; do
  case $argument in
    spark.jars.ivy=*) jars=${argument#*=}/jars ;;
  esac
done
mkdir -p "$jars"
{fetched}
"""


# fmt: off
FETCHED = [
    pytest.param({"a.jar": "one", "b.jar": "two"},                    None,     id="what is listed"),
    pytest.param({"a.jar": "one", "b.jar": "twi"},                    "b.jar",  id="another"),
    pytest.param({"a.jar": "one"},                                    "b.jar",  id="one too few"),
    pytest.param({"a.jar": "one", "b.jar": "two", "evil.jar": "x"},   "evil.jar", id="one too many"),
]
# fmt: on


@pytest.mark.parametrize("fetched, wrong", FETCHED)
def test_jars_that_are_not_the_listed_ones_are_not_taken(project, fetched, wrong):
    listed = {"a.jar": "one", "b.jar": "two"}
    lines = [f"{sha256(text.encode()).hexdigest()}  {name}\n" for name, text in listed.items()]
    (project.root / "conf" / "delta-jars.sha256").write_text("".join(lines))
    written = "\n".join(f'printf %s {text} >"$jars/{name}"' for name, text in fetched.items())
    script(project.spark_home / "bin" / "spark-submit", FETCHER.replace("{fetched}", written))
    script(project.venv / "bin" / "python", PYTHON)

    started = project.start("python")
    again = project.start("python")

    if wrong is None:
        assert (started.code, started.lines[-1], again.error) == (0, "started", "")
        return
    assert started.code == again.code == 1
    sentence = started.error.splitlines()[-1]
    assert f"not the jars that conf/delta-jars.sha256 lists ({wrong})" in sentence
    assert not (project.venv / "ivy").exists()


def test_finished_set_up_says_nothing(project):
    assert project.start("job.py").error == ""

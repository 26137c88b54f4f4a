"""What the wheel holds, as pyproject.toml lists it."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
ELSEWHERE = SETUPTOOLS["package-dir"]


def test_every_package_of_the_source_is_in_the_wheel():
    files = (ROOT / "kafka_on_spark").rglob("__init__.py")
    folders = {file.parent.relative_to(ROOT) for file in files}
    in_place = {".".join(folder.parts) for folder in folders if "discovery" not in folder.parts}

    assert in_place == set(SETUPTOOLS["packages"]) - set(ELSEWHERE)


def test_packages_from_elsewhere_have_the_files_that_they_promise():
    assert set(ELSEWHERE) <= set(SETUPTOOLS["packages"])
    assert (ROOT / ELSEWHERE["pyspark_kafka_on_spark"] / "__init__.py").is_file()
    for name in SETUPTOOLS["package-data"]["kafka_on_spark.conf"]:
        assert (ROOT / ELSEWHERE["kafka_on_spark.conf"] / name).is_file(), name


def test_every_file_of_the_console_page_is_in_the_wheel():
    console = ROOT / "kafka_on_spark" / "console"
    listed = {
        file
        for pattern in SETUPTOOLS["package-data"]["kafka_on_spark.console"]
        for file in console.glob(pattern)
    }

    assert listed == {each for each in (console / "page").rglob("*") if each.is_file()}

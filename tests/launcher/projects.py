"""Copies of the project whose `.venv` is made of stubs: nothing is installed."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Stands for spark-submit and for .venv's python: it says what it was called with.
RECORDER = """#!/usr/bin/env bash
pwd
printf 'argument %s\\n' "$@"
env | grep -E '^(JAVA_HOME|PYTHONPATH|PYSPARK_|SPARK_)' | sort
"""
JAVA = """#!/usr/bin/env bash
echo 'openjdk version "{version}" 2025-04-15' >&2
"""
# fmt: off
SYSTEM_TOOLS = [
    "awk", "bash", "cat", "cmp", "cp", "df", "dirname", "env", "grep", "ln", "mkdir", "mv",
    "readlink", "rm", "sed", "sort", "tee",
]
# fmt: on


@dataclass
class Started:
    code: int
    lines: list[str]
    error: str

    @property
    def arguments(self):
        return [line.removeprefix("argument ") for line in self.lines if line.startswith("argu")]

    @property
    def environment(self):
        return dict(line.split("=", 1) for line in self.lines if line.split("=")[0].isupper())

    def value_of(self, option):
        assert self.arguments.count(option) == 1, self.arguments
        return self.arguments[self.arguments.index(option) + 1]


class Project:
    """A checkout in a folder of its own, set up."""

    def __init__(self, folder):
        self.root = folder / "a project"
        self.venv = self.root / ".venv"
        shutil.copytree(ROOT / "conf", self.root / "conf")
        shutil.copy(ROOT / "spark-submit.sh", self.root)
        self.script = self.root / "spark-submit.sh"
        script(self.venv / "bin" / "python", RECORDER)
        script(self.spark_home / "bin" / "spark-submit", RECORDER)
        for name in ("a.jar", "b.jar"):
            touch(self.venv / "ivy" / "jars" / name)
        for name in ("requirements.lock", "delta-jars.conf", "delta-jars.sha256"):
            shutil.copy(self.root / "conf" / name, touch(self.venv / "finished" / name))
        self.tools = folder / "tools"
        self.java("17.0.15", self.tools)

    @property
    def spark_home(self):
        return self.venv / "lib" / "python3.11" / "site-packages" / "pyspark"

    @property
    def lean_home(self):
        """Without the zip of pyspark."""
        return self.venv / "spark"

    @property
    def jars(self):
        return [str(self.venv / "ivy" / "jars" / name) for name in ("a.jar", "b.jar")]

    def java(self, version, folder):
        script(folder / "java", JAVA.format(version=version))

    def start(self, *arguments, script=None, cwd=None, **environment):
        """Run the launcher; PATH holds our stubs and the system's tools, and no Python."""
        done = subprocess.run(
            [script or self.script, *arguments],
            env={"PATH": f"{self.tools}:{system_tools(self.root.parent)}"} | environment,
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Started(done.returncode, done.stdout.splitlines(), done.stderr)


def touch(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def script(file, text):
    touch(file).write_text(text)
    file.chmod(0o755)


def system_tools(folder):
    """A PATH with what the launcher calls, so that no Java or Python of this machine is on it."""
    tools = folder / "system"
    if not tools.exists():
        tools.mkdir()
        for name in SYSTEM_TOOLS:
            (tools / name).symlink_to(shutil.which(name))
    return tools

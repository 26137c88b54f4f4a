"""`.ci/tools`: it gets what some tests use where it may, and says so where it may not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "tools"
SYSTEM = ("bash", "cp", "env", "mkdir", "mktemp", "rm", "tail", "cat", "chmod", "true")

ROOT, USER = "echo 0", "echo 1000"
APT = """
echo "apt-get $*" >>"$CALLS"
if [ "$1" = download ]; then echo package >prometheus_1_all.deb; fi
"""
UNPACK = """
mkdir -p "$3/usr/bin"
echo "#!/bin/sh" >"$3/usr/bin/promtool"
chmod +x "$3/usr/bin/promtool"
"""


@pytest.fixture
def run(tmp_path):
    """Runs the script where these commands are all that there is, by name and what they do."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in SYSTEM:
        (commands / name).symlink_to(shutil.which(name))

    def run(**programs):
        for name, content in programs.items():
            path = commands / name.replace("_", "-")
            path.write_text(f"#!{shutil.which('bash')}\n{content}\n")
            path.chmod(0o755)
        environment = {"PATH": str(commands), "CALLS": str(tmp_path / "calls")}
        done = subprocess.run(
            [SCRIPT, tmp_path / "tools"], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


def calls(tmp_path):
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_what_is_there_is_not_fetched(run, tmp_path):
    said = run(id=ROOT, promtool="", chromium="", apt_get=APT)

    assert said == ""
    assert calls(tmp_path) == []


def test_what_is_missing_is_fetched_and_no_server_is_begun(run, tmp_path):
    said = run(id=ROOT, apt_get=APT, dpkg_deb=UNPACK)

    assert said == ""
    assert calls(tmp_path) == [
        "apt-get update -qq",
        "apt-get download -qq prometheus",
        "apt-get install -qq --yes --no-install-recommends chromium",
    ]
    assert os.access(tmp_path / "tools" / "promtool", os.X_OK)


def test_who_is_not_root_asks_sudo(run, tmp_path):
    sudo = 'shift\necho "sudo $*" >>"$CALLS"\n"$@"'

    said = run(id=USER, sudo=sudo, promtool="", apt_get=APT)

    assert said == ""
    assert [each for each in calls(tmp_path) if each.startswith("sudo ")] == [
        "sudo true",
        "sudo apt-get update -qq",
        "sudo env DEBIAN_FRONTEND=noninteractive"
        " apt-get install -qq --yes --no-install-recommends chromium",
    ]


# fmt: off
NOT_ALLOWED = [
    pytest.param({"id": ROOT},                                   id="a system without apt-get"),
    pytest.param({"id": USER, "apt_get": APT},                   id="a user without sudo"),
    pytest.param({"id": USER, "apt_get": APT, "sudo": "exit 1"}, id="a user whom sudo refuses"),
]
# fmt: on


@pytest.mark.parametrize("programs", NOT_ALLOWED)
def test_where_it_is_not_allowed_it_says_so_and_goes_on(run, tmp_path, programs):
    said = run(**programs)

    assert said == (
        "not installed, since apt-get is not allowed here: promtool chromium; their tests are"
        " skipped\n"
    )
    assert calls(tmp_path) == []


def test_where_it_fails_it_says_so_and_goes_on(run, tmp_path):
    failing = 'echo "apt-get $*" >>"$CALLS"\necho "no network" >&2\nexit 100'

    said = run(id=ROOT, chromium="", apt_get=f'if [ "$1" = update ]; then exit 100; fi\n{failing}')

    assert said == (
        "apt-get has no new list of packages: the old one is used\n"
        "no network\n"
        "not installed, since apt-get failed: promtool; its tests are skipped\n"
    )
    assert not (tmp_path / "tools" / "promtool").exists()

"""The alert rules and the dashboard name figures that exist, and the page names all of them."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from kafka_on_spark.cluster.openmetrics import exported_name, sample_names
from kafka_on_spark.service.describe.metric import HELP, OF_LOGS
from tests.pages import ROOT

ALERTS = ROOT / "docs" / "service" / "alerts.yaml"
BOARD = ROOT / "docs" / "service" / "grafana.json"
PAGE = ROOT / "docs" / "operate.md"
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
WRITTEN = HELP.keys() - OF_LOGS
SAMPLES = {name for figure in WRITTEN for name in sample_names(*figure)} | OF_THE_PROCESS
ASKED = re.compile(r"\b(?:kafka|process)_[a-z_]+\b")
CASES = [
    "kafka_server_replicamanager_isrshrinks",
    "kafka_on_spark_probe_ms",
    "kafka_on_spark_nothing",
]


@pytest.fixture(scope="module")
def rules():
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


@pytest.fixture(scope="module")
def panels():
    return json.loads(BOARD.read_text())["panels"]


@pytest.mark.parametrize("name", CASES)
def test_a_name_without_its_ending_is_none(name):
    assert ASKED.findall(f"max({name}[5m])") == [name]
    assert name not in SAMPLES


def test_every_alert_asks_for_figures_that_exist_and_says_what_is_wrong(rules):
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        asked = set(ASKED.findall(rule["expr"]))
        assert asked, rule
        assert asked <= SAMPLES, rule
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_every_panel_asks_for_figures_that_exist(panels):
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            asked = set(ASKED.findall(target["expr"]))
            assert asked, target
            assert asked <= SAMPLES, target


def test_no_two_panels_stand_in_the_same_place(panels):
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_page_has_every_figure_and_no_other():
    text = PAGE.read_text()
    section = text[text.index("### Metrics") :]
    listed = set(re.findall(r"^\| `(kafka_[a-z_]+)` \|", section, re.MULTILINE))

    assert listed == {exported_name(*figure) for figure in WRITTEN}


def test_promtool_takes_the_rules():
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    said = subprocess.run([tool, "check", "rules", str(ALERTS)], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr

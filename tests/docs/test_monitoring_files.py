"""The alert rules and the dashboard name figures that exist, and the page names all of them."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from kafka_on_spark.store.counts import COUNTERS, HELP, TIMES, exported_name
from tests.pages import ROOT, page

ALERTS = ROOT / "docs" / "service" / "alerts.yaml"
BOARD = ROOT / "docs" / "service" / "grafana.json"
PAGE = ROOT / "docs" / "watching.md"
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
OF_LOGS = {
    *((kind, name) for kind, name in HELP if kind == "Log"),
    *(("Upkeep", each) for each in ("due-count", "due-bytes", "due-for-ms")),
    ("LogCleanerManager", "max-dirty-percent"),
}
"""They are read from the replicas' tables: too much for a page that is asked for often."""
WRITTEN = HELP.keys() - OF_LOGS


def sample_names(kind: str, name: str) -> tuple[str, ...]:
    """Return the names of the samples of a figure: what a query may ask for."""
    exported = exported_name(kind, name)
    if (kind, name) in TIMES:
        return tuple(f"{exported}_{part}" for part in ("bucket", "count", "sum"))
    return (f"{exported}_total",) if (kind, name) in COUNTERS else (exported,)


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


def test_each_alert_leads_to_its_section_of_the_runbook_which_names_it(rules):
    sections = page("docs/runbook.md").split("\n## ")
    told = {each.partition("\n")[0].lower().replace(" ", "-"): each for each in sections}

    for rule in rules:
        name, _, section = rule["annotations"]["runbook"].partition("#")
        assert name == "docs/runbook.md"
        assert f"`{rule['alert']}`" in told[section]


def test_every_panel_asks_for_figures_that_exist(panels):
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            asked = set(ASKED.findall(target["expr"]))
            assert asked, target
            assert asked <= SAMPLES, target


def test_panels_of_processes_show_those_that_serve_a_cluster(panels):
    ours = re.compile(r"and on \(job, instance\) kafka_on_spark_[a-z_]+$")
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    of_any = [each for each in asked if OF_THE_PROCESS & set(ASKED.findall(each))]

    assert len(of_any) == len(OF_THE_PROCESS)
    assert [each for each in of_any if not ours.search(each)] == []


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
    section = text[text.index("## Metrics") :]
    listed = set(re.findall(r"^\| `(kafka_[a-z_]+)` \|", section, re.MULTILINE))

    assert listed == {exported_name(*figure) for figure in WRITTEN}


def promtool(*arguments):
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    said = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_promtool_takes_the_rules():
    promtool("check", "rules", ALERTS)


def test_promtool_takes_what_the_panels_ask_for(panels, tmp_path):
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert not any("$" in each for each in asked), "promtool does not know the board's variables"
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(asked)]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    promtool("check", "rules", path)


CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"

# fmt: off
CONTROLLED = [
    pytest.param({"a one": "1x30", "b one": "1x30"},           [],         id="two clusters, each with its controller"),
    pytest.param({"a one": "1x30", "a two": "0x30"},           [],         id="a controller and a standby"),
    pytest.param({"a one": "1x30", "b one": "0x30"},           [("b", 0)], id="one cluster without"),
    pytest.param({"a one": "1x30", "a two": "1x30"},           [("a", 2)], id="two controllers of one cluster"),
    pytest.param({"a one": "1x30", "b one": "1x9 stale"},      [("b", 0)], id="a cluster of which nobody answers any more"),
    pytest.param({"a one": "1x19 stale 1x9"},                  [],         id="a restart"),
    pytest.param({},                                           [("", 0)],  id="nobody has answered yet"),
]
# fmt: on


@pytest.mark.parametrize("values, told", CONTROLLED)
def test_each_cluster_is_to_have_one_controller(tmp_path, values, told):
    series = []
    for each, given in values.items():
        job, instance = each.split()
        of = f'{CONTROLLERS}{{job="{job}",instance="{instance}"}}'
        series.append({"series": of, "values": given})
    alerts = [
        {
            "exp_labels": {"severity": "critical"} | ({"job": job} if job else {}),
            "exp_annotations": {
                "runbook": "docs/runbook.md#no-controller",
                "summary": f"{count} processes say that they are the controller: one must be",
                "description": "Without one nobody fences brokers and elects leaders but appends"
                " that wait.",
            },
        }
        for job, count in told
    ]
    asked = {"eval_time": "21m", "alertname": "KafkaOnSparkNoController", "exp_alerts": alerts}
    case = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))

    promtool("test", "rules", path)


@pytest.mark.parametrize("name", ["KafkaOnSparkOfflinePartitions", "KafkaOnSparkBrokerFenced"])
def test_an_alert_says_of_which_cluster_it_is(rules, name):
    [rule] = [each for each in rules if each["alert"] == name]

    assert rule["expr"].startswith("max by (job) (")


UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


@pytest.mark.parametrize(
    "values, minutes, is_told",
    [
        pytest.param("0x120", 100, False, id="none"),
        pytest.param("0x9 1x120", 15, True, id="the first one of a process"),
        pytest.param("0x9 1x120", 100, False, id="an old one"),
        pytest.param("_x9 1x120", 15, True, id="one before the process was first asked"),
        pytest.param("_x9 1x120", 100, False, id="an old one before that"),
        pytest.param("3x9 0x120", 15, False, id="a process that began anew"),
    ],
)
def test_an_unclean_election_is_told_for_an_hour(tmp_path, values, minutes, is_told):
    alert = "KafkaOnSparkUncleanElection"
    summary = "A leader was elected that may lack committed records"
    annotations = {"runbook": "docs/runbook.md#records-were-lost", "summary": summary}
    told = {"exp_labels": {"severity": "critical"}, "exp_annotations": annotations}
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'{UNCLEAN}{{instance="one"}}', "values": values},
            {"series": f'{UNCLEAN}{{instance="two"}}', "values": "0x200"},
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{minutes}m",
                "alertname": alert,
                "exp_alerts": [told] if is_told else [],
            }
        ],
    }
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))

    promtool("test", "rules", path)

"""The unit and the manifest of the service are what systemd and Kubernetes accept, and what the
command line takes.

`kubernetes/deployment.json` is what Kubernetes' own OpenAPI (v1.34, Apache-2.0) says of a
Deployment, as JSON schema: unknown fields are refused, descriptions and kinds of volumes that nobody
needs here are left out.
"""

import configparser
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.main import get_command

from kafka_on_spark.cli.application import app
from tests.pages import ROOT

SERVICE = ROOT / "docs" / "service"
SCHEMA = json.loads((Path(__file__).parent / "kubernetes" / "deployment.json").read_text())
SERVE = get_command(app).get_command(None, "serve")
OPTIONS = {name for option in SERVE.params for name in option.opts}
PAGES = {"/healthz", "/readyz"}


@pytest.fixture(scope="module")
def manifest():
    return yaml.safe_load((SERVICE / "kubernetes.yaml").read_text())


@pytest.fixture(scope="module")
def unit():
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read(SERVICE / "kafka-on-spark.service")
    return found


def seconds_of(words):
    return float(words[words.index("--stop-seconds") + 1])


def test_the_manifest_is_a_deployment_by_the_schema_of_kubernetes(manifest):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(manifest, SCHEMA)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda spec: spec["containers"][0].update(livenesProbe={}),
        lambda spec: spec["containers"][0]["livenessProbe"].update(periodSeconds="20"),
        lambda spec: spec.pop("containers"),
    ],
)
def test_the_schema_refuses_what_kubernetes_refuses(break_it):
    broken = yaml.safe_load((SERVICE / "kubernetes.yaml").read_text())
    break_it(broken["spec"]["template"]["spec"])

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


def test_the_manifest_fits_itself_and_the_command_line(manifest):
    template = manifest["spec"]["template"]
    [container] = template["spec"]["containers"]
    words = container["args"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}

    labels = template["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert words[0] == "serve"
    assert {each for each in words if each.startswith("--")} <= OPTIONS
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in PAGES
        assert str(ports[asked["port"]]) == words[words.index("--health-port") + 1]
    assert seconds_of(words) < template["spec"]["terminationGracePeriodSeconds"]
    volumes = {each["name"] for each in template["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_unit_fits_the_command_line(unit):
    service = unit["Service"]
    [_, verb, *words] = shlex.split(service["ExecStart"])

    assert verb == "serve"
    assert {each for each in words if each.startswith("--")} <= OPTIONS
    assert seconds_of(words) < float(service["TimeoutStopSec"])
    assert service["Type"] == "exec"  # serve tells systemd nothing
    assert "WatchdogSec" not in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_knows_all_that_the_unit_says(tmp_path, unit):
    text = (SERVICE / "kafka-on-spark.service").read_text()
    command = unit["Service"]["ExecStart"].split()[0]
    there = tmp_path / "kafka-on-spark.service"
    there.write_text(text.replace(command, "/bin/true"))  # it looks whether there is one

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(there)],
        capture_output=True,
        text=True,
        check=False,
    )

    mine = [each for each in said.stderr.splitlines() if there.name in each]
    assert mine == []

"""A cluster under real processes, whose drivers, executors, workers, controllers and clients are
killed, and whose disks are lost, filled, rolled back, hung and forged: what the clients wrote down has
no anomaly."""

import json

import pytest

from tests.rigs.torturing.checks.anomalies import CHECKS
from tests.rigs.torturing.faults.disk_faults import DISK_FAULTS
from tests.rigs.torturing.faults.nemesis import PROCESS_FAULTS
from tests.torture.torture_runs import torture

MINUTES = 1.0

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torture") / "run"
    code, output = torture(folder, "--minutes", str(MINUTES), "--seed", "11")
    file = folder / "report.json"
    assert file.exists(), output
    found = json.loads(file.read_text())
    assert found["exit_code"] == code, output
    return found


def test_nothing_was_lost_doubled_reordered_or_read_that_should_not_be(report):
    assert report["anomalies"] == []
    assert report["anomaly_counts"] == dict.fromkeys(CHECKS, 0)


def test_every_kind_of_fault_that_can_be_done_here_was_done(report):
    kinds = {*DISK_FAULTS, *PROCESS_FAULTS} - set(report["faults_left_out"])

    assert {kind for kind in kinds if not report["faults"].get(kind)} == set()


def test_faults_that_need_no_rights_are_never_left_out(report):
    # Root itself can give up reading what is forbidden, unless that was taken from it.
    assert set(report["faults_left_out"]) <= {"full", "read-only", "file forbidden for moments"}


def test_every_client_appended_and_read_and_leaders_were_elected(report):
    clients = {"idempotent-1", "idempotent-2", "appender-1", "spark-appender"}

    assert set(report["appends_by_client"]) == clients
    assert report["operations"]["poll"]["ok"] > 0
    assert report["records_read_back"] >= report["records_acked"] > 0
    assert report["restarts"] > 0
    assert report["events"]["elections"] > 0
    assert report["events"]["replicas found bad"] > 0


def test_appends_without_a_controller_were_answered_by_their_own_decisions(report):
    assert len(report["answered_without_controller_s"]) > 0
    assert report["events"]["changes without a controller"] > 0


def test_fsck_has_read_every_table(report):
    assert report["fsck"]["tables"] == 1 + 2 * 2 * 3
    assert report["fsck"]["bytes"] > 0

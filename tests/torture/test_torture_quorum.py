"""A short run with three voters, whose roots are taken away, filled, hung and forbidden while processes are killed."""

import json

import pytest

from tests.rigs.torturing.checks.anomalies import CHECKS
from tests.rigs.torturing.faults.voter_faults import NEEDS, VOTER_FAULTS
from tests.torture.torture_runs import torture


@pytest.mark.integration
@pytest.mark.long
def test_no_decision_is_lost_while_voters_roots_fail_and_processes_are_killed(tmp_path):
    options = ("--voters", "3", "--without-spark", "--spare-brokers", "--minutes", "0.5")

    code, output = torture(tmp_path / "run", *options, "--seed", "17")

    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (code, report["anomalies"]) == (0, []), output
    assert report["anomaly_counts"] == dict.fromkeys(CHECKS, 0)
    done = {kind for kind, count in report["faults"].items() if count}
    left_out = {kind for kind, need in NEEDS.items() if need in report["faults_left_out"]}
    assert {*VOTER_FAULTS} - left_out <= done
    assert {"kill client", "kill controller", "freeze client"} <= done
    assert report["first_decisions"]["count"] > len(VOTER_FAULTS)
    assert report["quorum_epoch"] > 1
    assert report["records_read_back"] >= report["records_acked"] > 0

"""What a run checks of the metadata quorum: planted findings are found; and a short run with three
voters, whose roots are taken away, filled, hung and forbidden while processes are killed."""

import json
import time

import pytest

from kafka_on_spark.base.errors import RequestTimedOutError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    MetadataBatch,
    Stamp,
)
from tests.rigs.torturing.checks.anomalies import CHECKS
from tests.rigs.torturing.checks.quorum import (
    BOUND_S,
    PROBE,
    FirstDecision,
    differences,
    late_decisions,
    lost_decisions,
    times_of,
)
from tests.rigs.torturing.faults.voter_faults import NEEDS, VOTER_FAULTS, VoterFaults
from tests.torture.reports import report_of
from tests.torture.torture_runs import torture


def log_of(*values):
    """A log of decisions that set the setting to these values."""
    return [
        MetadataBatch(
            base_offset=Offset(at),
            stamp=Stamp(time_ms=1),
            records=(ConfigRecord(topic_id=None, config_name=PROBE, config_value=value),),
        )
        for at, value in enumerate(values)
    ]


def decisions_of(*values):
    return [FirstDecision("voter away", value, 1.0, 0) for value in values]


def names_of(anomalies):
    return [(each.name, each.key) for each in anomalies]


def test_voters_that_hold_the_same_and_every_decision_once_have_nothing_wrong():
    logs = {"/m1": log_of("1", "2"), "/m2": log_of("1", "2")}

    assert [*differences(logs), *lost_decisions(logs, decisions_of("1", "2"))] == []


@pytest.mark.parametrize("other", [("1",), ("1", "2", "3"), ("1", "3"), ()])
def test_a_voter_that_lacks_a_batch_or_has_another_is_found(other):
    logs = {"/m1": log_of("1", "2"), "/m2": log_of(*other), "/m3": log_of("1", "2")}

    assert names_of(differences(logs)) == [("voters-differ", "/m2")]


@pytest.mark.parametrize("other", [("1",), ("1", "2", "2")])
def test_a_decision_that_was_acknowledged_and_is_not_there_once_is_found(other):
    logs = {"/m1": log_of("1", "2"), "/m2": log_of(*other)}

    assert names_of(lost_decisions(logs, decisions_of("1", "2"))) == [("decision-lost", "/m2")]


class WithoutController:
    """A cluster whose commands wait for a controller that was killed, twice for too long."""

    def __init__(self):
        self.groups, self.timeouts = [], [1, 2]

    def consumer(self, *, partitions, group, enable_auto_commit):
        self.groups.append(group)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def commit(self, offsets):
        pass

    def alter_topic_configs(self, topic, configs):
        if self.timeouts:
            self.timeouts.pop()
            raise RequestTimedOutError("no controller answered")


def test_a_decision_waits_for_no_controller_and_a_command_is_measured_for_itself():
    cluster = WithoutController()
    faults = VoterFaults(None, cluster, None, None, None)

    faults._decide("voter hangs", time.monotonic())

    [decision], [command] = faults.decisions, faults.commands
    assert (decision.after, decision.value, decision.tries) == ("voter hangs", *cluster.groups, 0)
    assert (command.after, command.tries) == ("voter hangs", 2)
    assert decision.value != command.value


def times_with(*late, count):
    """The times of so many first decisions, of which some took so many bounds, all others 1 s."""
    seconds = [each * BOUND_S for each in late] + [1.0] * (count - len(late))
    return times_of([FirstDecision("voter hangs", str(at), s, 0) for at, s in enumerate(seconds)])


# fmt: off
RUNS = [
    pytest.param(times_with(2, count=100),          [],                          id="one of a hundred late"),
    pytest.param(times_with(2, 2, count=100),       ["only 98 of 100"],          id="two of a hundred late"),
    pytest.param(times_with(2, 2, count=200),       [],                          id="two of two hundred late"),
    pytest.param(times_with(4.1, count=100),        ["1 came after"],            id="one very late"),
    pytest.param(times_with(4.1, 4.1, count=100),   ["only 98", "2 came after"], id="two very late"),
    pytest.param(times_with(*[4.1] * 99, count=99), [],                          id="too few to judge by"),
    pytest.param(times_of([]),                      [],                          id="one voter"),
]
# fmt: on


@pytest.mark.parametrize("times, words", RUNS)
def test_a_run_fails_whose_first_decisions_miss_the_bound_if_there_are_a_hundred(times, words):
    late = [*late_decisions(times)]

    assert len(late) == len(words)
    assert all(each in found.sentence for each, found in zip(words, late, strict=True))
    report = report_of(first_decisions=times)
    assert (report.exit_code, report.as_dict()["exit_code"]) == (bool(late), bool(late))
    assert report.as_dict()["anomaly_counts"].get("decisions-late", 0) == len(late)


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
    assert report["first_commands"]["count"] > len(VOTER_FAULTS)
    assert report["quorum_epoch"] > 1
    assert report["records_read_back"] >= report["records_acked"] > 0

"""The vectors' runner itself: it finds what is wrong, and nothing passes in silence."""

import ast
import json
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.applicability import FILE, read_rules
from tests.conformance.conftest import OURS
from tests.conformance.loading import load_vectors
from tests.conformance.runner import MismatchError, argument_names, run
from tests.conformance.switching import nonsense_in, production_functions

RULES = read_rules()
ROOT = Path(__file__).parents[2]
# Of one kind no vector is here; the schema says that there is one.
VECTORS = load_vectors(OURS)
SEEN = [kind for kind in ADAPTERS if any(each.kind == kind for each in VECTORS)]
SCHEMAS = [OURS / "schema" / name for name in ("ops.json", "ops.oracle.json")]


def changed(value):
    """Return another value of the same kind: what a wrong expectation looks like."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "?"
    if isinstance(value, list):
        return [*value, 99]
    if isinstance(value, dict):
        return {name: changed(each) for name, each in value.items()}
    return 99


def with_wrong(vector, place, name):
    steps, expected = deepcopy(vector.steps), deepcopy(vector.expected)
    holder, key = (expected, name) if place == "expected" else (steps[place], "expect")
    if place != "expected" and name:
        holder, key = steps[place]["expect"], name
    holder[key] = changed(holder[key])
    return replace(vector, steps=steps, expected=expected)


def of_kind(kind):
    return [vector for vector in VECTORS if vector.kind == kind]


def by_kind(kind, *others):
    """Return a case of a kind; compactions take a minute on a busy machine."""
    return pytest.param(kind, *others, marks=[pytest.mark.long] * (kind == "compaction"))


@pytest.mark.parametrize("kind", [by_kind(each) for each in SEEN])
def test_every_expectation_that_is_compared_fails_when_it_is_wrong(kind):
    compared = 0
    for vector in of_kind(kind)[:12]:
        for place, name in run(vector, ADAPTERS[kind], RULES).compared:
            with pytest.raises(MismatchError):
                run(with_wrong(vector, place, name), ADAPTERS[kind], RULES)
            compared += 1
    assert compared >= 4


def holds(vector):
    """Return whether a vector passes, and compares something."""
    try:
        return bool(run(vector, ADAPTERS[vector.kind], RULES).compared)
    except Exception:  # of whatever type: that is how a vector fails
        return False


# What of the product answers the vectors of each kind. `.ci/uncalled.py` sees that it runs.
# fmt: off
ANSWERS = {
    "leader_epoch_cache":       ["log.truncation:epoch_end", "log.truncation:epoch_history"],
    "epoch_log":                ["log.truncation:end_offset_for", "log.operations:adopt"],
    "offsets_for_leader_epoch": ["log.truncation:end_offset_for", "controller.fetch_plan:check_request"],
    "fetch_divergence":         ["log.truncation:check_fetch", "controller.fetch_plan:check_request"],
    "high_watermark":           ["metadata.reports:advance_high_watermark"],
    "fetch_state":              ["log.fetch:partition_report"],
    "truncation_state":         ["log.truncation:truncation_step"],
    "fetcher":                  ["log.fetch:fetch", "controller.fetch_plan:awaits_metadata"],
    "fetch_error":              ["controller.fetch_plan:awaits_metadata"],
    "offset_reset":             ["log.fetch:fetch"],
    "reconcile":                ["log.truncation:truncation_steps"],
    "gates":                    ["log.read_order:plan_read"],
    "isr":                      ["controller.isr:may_join", "controller.isr:lagging_members"],
    "list_offsets":             ["log.reading:offset_for_time"],
    "log_offsets":              ["log.operations:append_fetched", "metadata.reports:advance_high_watermark"],
    "retention":                ["log.retention:retained", "controller.log_start:retain"],
    "compaction":               ["log.compaction:stays", "log.compactor:Compactor.last_offsets",
                                 "log.compactor:Compactor.without_stale", "controller.compaction:compact"],
    "cleanable_range":          ["log.compaction:dirt_of"],
    "delete_records":           ["controller.log_start:delete_records"],
    "idempotent_log":           ["log.producer_state:find_append"],
    "producer_state":           ["log.producer_state:find_append", "log.producer_state:known_producer"],
    "partitioner":              ["log.hashing:partitions_of_keys"],
    "broker_ring":              ["controller.topics:BrokerRing.next"],
    "striped":                  ["controller.topics:Stripes.place"],
    "controller":               ["controller.topics:create_topic", "controller.isr:alter_isr",
                                 "controller.brokers:fence_broker"],
    "elect_leader":             ["controller.election:elect_leader"],
    "partition_change":         ["controller.election:change_of_isr"],
    "leader_epoch_bump":        ["metadata.partition:PartitionRegistration.merge"],
    "isr_index":                ["controller.brokers:fence_broker"],
    "broker_heartbeat":         ["controller.brokers:drain_broker"],
    "broker_registration":      ["controller.brokers:register_broker"],
    "merge_record":             ["metadata.partition:PartitionRegistration.merge"],
    "reassignment_plan":        ["controller.reassignment:roles_of"],
    "reassignment_complete":    ["controller.reassignment:next_step"],
    "reassignment_revert":      ["controller.reassignment:cancel_reassignments"],
    "election_algorithm":       ["controller.election:elect_leader"],
    "replica_assignment":       ["metadata.partition:PartitionRegistration.target_replicas"],
    "reassignment_phases":      ["controller.reassignment:start_of_move"],
    "controller_integration":   ["controller.reassignment:advance_reassignments"],
    "preferred_imbalance":      [],  # no vector of it is here
    "quorum_init":              ["metadata.quorum.description:voter_state"],
    "quorum_transition":        ["metadata.quorum.raft:stand", "metadata.quorum.raft:decide_vote",
                                 "metadata.quorum.raft:begin_leadership", "metadata.quorum.raft:adopt"],
    "vote_grant":               ["metadata.quorum.raft:decide_vote", "metadata.quorum.raft:decide_candidacy"],
    "candidate_votes":          ["metadata.quorum.raft:has_majority", "metadata.quorum.raft:may_win"],
    "leader_high_watermark":    ["metadata.quorum.raft:majority_end", "metadata.quorum.raft:LeaderView.counted_end",
                                 "metadata.quorum.raft:adopt", "metadata.quorum.raft:fetch"],
    "raft_client":              ["metadata.quorum.raft:decide_vote"],
    "raft_log":                 ["metadata.quorum.voter_table:RaftLog.cut_to"],
    "raft_end_offset":          ["metadata.quorum.voter_table:end_offset_for_epoch"],
    "raft_validate_offset":     ["metadata.quorum.voter_table:validate_offset_and_epoch"],
}
# fmt: on


def test_what_answers_each_kind_is_named():
    assert ANSWERS.keys() == ADAPTERS.keys()
    assert [kind for kind, places in ANSWERS.items() if not places] == ["preferred_imbalance"]


@cache
def right_of(kind):
    """Return the vectors of a kind that pass, and compare something."""
    return [vector for vector in of_kind(kind) if holds(vector)]


@pytest.mark.parametrize(
    "kind, place", [by_kind(kind, place) for kind, places in ANSWERS.items() for place in places]
)
def test_nonsense_where_the_product_answers_is_noticed(kind, place):
    right = right_of(kind)

    with nonsense_in(place):
        assert right
        assert not all(holds(vector) for vector in right)


# The others that adapters use, found in what they import.
OTHERS = production_functions("tests.conformance.") - {
    place for places in ANSWERS.values() for place in places
}

# Of these no vector that is here tells whether their answer is right: their own tests do.
UNHEARD = {
    "controller.isr:conclude",
    "produce.append_rounds:check_min_isr",
    "log.compactor:compact_replica",
    "store.new_roots:prepare_root",
}


@pytest.mark.long
@pytest.mark.parametrize("place", sorted(OTHERS))
def test_nonsense_of_each_other_function_that_adapters_use_is_noticed(place):
    right = [vector for kind in SEEN for vector in right_of(kind)]

    with nonsense_in(place):
        assert all(holds(vector) for vector in right) == (place in UNHEARD)


@pytest.mark.parametrize("kind", SEEN)
def test_unknown_operation_or_argument_or_setup_fails(kind):
    for vector in of_kind(kind):
        if run(vector, ADAPTERS[kind], RULES).compared:
            break

    with pytest.raises(MismatchError, match="unknown operation"):
        run(replace(vector, steps=({"op": "no_such_op"},)), ADAPTERS[kind], RULES)
    step = {**vector.steps[0], "no_such_argument": 1}
    with pytest.raises(MismatchError, match="unknown argument"):
        run(replace(vector, steps=(step,)), ADAPTERS[kind], RULES)
    setup = {**vector.setup, "no_such_key": 1}
    with pytest.raises(MismatchError, match="unknown argument"):
        run(replace(vector, setup=setup), ADAPTERS[kind], RULES)


def test_field_that_an_adapter_does_not_answer_fails():
    vector = of_kind("isr")[0]
    step = {"op": "state", "expect": {"no_such_field": 1}}

    with pytest.raises(MismatchError, match="no answer to the field 'no_such_field'"):
        run(replace(vector, steps=(step,)), ADAPTERS["isr"], RULES)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda each: each.name)
def test_everything_that_the_schema_lists_is_known_to_an_adapter_or_left_out_with_a_reason(schema):
    checked = 0
    for kinds in json.loads(schema.read_text(encoding="utf-8")).values():
        for kind, listed in kinds.items():
            if kind not in ADAPTERS:
                assert RULES.reason_for_vector("", kind) is not None, kind
                continue
            sorts = ADAPTERS[kind].sorts()
            known = set().union(*(argument_names(each, "__init__") for each in sorts))
            assert not listed["setup_keys"].keys() - known, kind
            for op, about in listed["ops"].items():
                names = [argument_names(e, f"op_{op}") for e in sorts if hasattr(e, f"op_{op}")]
                is_cut_off = any(op in each.CUT_OFF for each in sorts)
                assert names or is_cut_off or RULES.reason_for_op(kind, op), (kind, op)
                assert not names or not about["args"].keys() - set().union(*names), (kind, op)
                checked += 1
    assert checked > 15


@pytest.mark.long
def test_what_is_left_out_is_counted():
    """A reason that leaves out more than it did is seen here, and one that leaves out less, too."""
    found = Counter()
    for vector in VECTORS:
        reason = RULES.reason_for_vector(vector.id, vector.kind)
        found.update([reason.id] if reason else run(vector, ADAPTERS[vector.kind], RULES).left_out)

    assert found == {reason: count for reason, count in RULES.counts.items() if count}


@pytest.mark.parametrize("reason", RULES.reasons.values(), ids=lambda each: each.id)
def test_tests_that_cover_a_reason_exist(reason):
    assert reason.why
    for covering in reason.covered_by:
        file, name = covering.split("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_every_reason_is_given_somewhere():
    adapters = "".join(
        file.read_text(encoding="utf-8") for file in (FILE.parent / "adapters").rglob("*.py")
    )
    by_rule = {*RULES.kinds.values(), *RULES.vectors.values(), *RULES.ops.values()}
    by_rule |= {*RULES.fields.values()}

    assert RULES.reasons.keys() == RULES.counts.keys()

    unused = [each for each in RULES.reasons if each not in by_rule and f'"{each}"' not in adapters]

    assert not unused


def pytest_on(folder):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-q"]
    command += ["tests/conformance/test_vectors.py", "--vectors", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_another_folder_runs_by_an_option_and_what_is_wrong_or_unknown_in_it_fails(tmp_path):
    vectors = json.loads((OURS / "09_partitioner.oracle.json").read_text(encoding="utf-8"))[:3]
    kind = vectors[0]["kind"]
    vectors[1]["input"]["steps"][0]["expect"] += 1
    vectors[2]["kind"] = "new"
    (tmp_path / "mine.json").write_text(json.dumps(vectors), encoding="utf-8")

    ran = pytest_on(tmp_path)

    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 failed, 1 passed" in ran.stdout
    assert (
        f"FAILED tests/conformance/test_vectors.py::test_vector[{vectors[1]['id']}]" in ran.stdout
    )
    assert "unknown kind new" in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith("mine.json")]
    assert sorted(rows) == [
        ["mine.json", "new", "0", "0", "0", "1"],
        ["mine.json", kind, "0", "1", "0", "1"],
    ]


def test_preferred_imbalance():
    """As in Kafka's ControllerContextTest.testPreferredReplicaImbalanceMetric."""
    steps = [
        ("leader", {"partition": "p1", "leader": 1}, 0),
        ("leader", {"partition": "p2", "leader": 2}, 1),
        ("leader", {"partition": "p3", "leader": 3}, 2),
        ("assign", {"partition": "p1", "replicas": [2, 3, 1]}, 3),
        ("assign", {"partition": "p2", "replicas": [2, 3, 1]}, 2),
        ("queue_deletion", {"partition": "p3"}, 1),
        ("leader", {"partition": "p3", "leader": 1}, 1),
    ]
    assignment = {name: [1, 2, 3] for name in ("p1", "p2", "p3")}
    adapter = ADAPTERS["preferred_imbalance"](assignment=assignment)
    for op, arguments, imbalance in steps:
        getattr(adapter, f"op_{op}")(**arguments)
        assert adapter.op_imbalance() == imbalance

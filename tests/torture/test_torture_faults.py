"""The order of faults, whom they may hit, and how processes are told apart."""

import random
from types import SimpleNamespace

import pytest

from tests.torture.harness.faults.disk_faults import DISK_FAULTS, dealt
from tests.torture.harness.faults.nemesis import ON_EXECUTORS, PROCESS_FAULTS, Nemesis
from tests.torture.harness.folder import controller_pid
from tests.torture.harness.processes import (
    ROLES,
    Found,
    is_driver_jvm,
    is_driver_python,
    is_executor,
    is_worker,
)


@pytest.mark.parametrize("kinds", [DISK_FAULTS, PROCESS_FAULTS])
def test_every_kind_of_fault_comes_before_any_comes_again(kinds):
    faults = dealt(kinds, random.Random(5))

    rounds = [[next(faults) for _ in kinds] for _ in range(3)]

    assert all(sorted(each) == sorted(kinds) for each in rounds)
    assert rounds[0] != rounds[1]


def test_faults_of_a_seed_come_in_the_same_order():
    first, second = (dealt(DISK_FAULTS, random.Random("7 disks")) for _ in range(2))

    assert [next(first) for _ in range(20)] == [next(second) for _ in range(20)]


def nemesis_of(*commands):
    """What does faults to a run in which all work, the controller in the last of these processes."""
    found = [Found(pid, 1, pid, command) for pid, command in enumerate(commands, 1)]
    sessions = frozenset(each.session for each in found)
    processes = SimpleNamespace(
        find=lambda: found, working_sessions=lambda *_, **__: sessions, roles=ROLES
    )
    lease = SimpleNamespace(controller_id=f"host-{len(found)}-abcdef01")
    cluster = SimpleNamespace(image=SimpleNamespace(controller=lease))
    disks = SimpleNamespace(why_not={}, folder=SimpleNamespace(voter_disks=()))
    return Nemesis(disks, processes, cluster, 1, lambda name: None)


@pytest.mark.parametrize("kind", ["kill driver JVM", "kill driver Python", "kill controller"])
def test_a_driver_is_killed_only_after_what_needs_one_that_works(kind):
    nemesis = nemesis_of(
        "java org.apache.spark.deploy.SparkSubmit tests/torture/harness/clients/client.py spark-x",
        "python tests/torture/harness/clients/client.py spark-appender --dir /x",
    )
    for each in ON_EXECUTORS:
        assert nemesis._targets(kind) == [], each
        nemesis.done[each] += 1

    assert [each.pid for each in nemesis._targets(kind)] == [1 if kind == "kill driver JVM" else 2]


def test_a_controller_that_is_no_driver_is_killed_at_any_moment():
    nemesis = nemesis_of("python tests/torture/harness/clients/client.py controller --dir /x")

    assert [each.pid for each in nemesis._targets("kill controller")] == [1]


# fmt: off
COMMANDS = [
    ("java org.apache.spark.executor.CoarseGrainedExecutorBackend --app x",       is_executor),
    ("java org.apache.spark.deploy.SparkSubmit tests/torture/harness/clients/client.py spark-x",   is_driver_jvm),
    ("python tests/torture/harness/clients/client.py spark-appender --dir /x",                     is_driver_python),
    ("python -m pyspark.daemon pyspark.worker",                                   is_worker),
]
# fmt: on


@pytest.mark.parametrize("command,expected", COMMANDS)
def test_processes_of_spark_are_told_apart_by_their_commands(command, expected):
    kinds = (is_executor, is_driver_jvm, is_driver_python, is_worker)

    assert [kind for kind in kinds if kind(Found(1, 1, 1, command))] == [expected]


def test_controller_is_found_by_its_id_also_on_a_host_with_dashes():
    lease = SimpleNamespace(controller_id="my-host-1234-abcdef01")

    assert controller_pid(SimpleNamespace(controller=lease)) == 1234
    assert controller_pid(SimpleNamespace(controller=None)) is None

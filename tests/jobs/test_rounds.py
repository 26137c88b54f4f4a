"""jobs/replicate.py and jobs/controller.py: rounds once or for a time, killed, or told to end."""

import os
import signal

import pytest

from jobs import controller, replicate
from jobs.command_line import rounds
from kafka_on_spark.base.errors import NotControllerError
from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.disks import isr_of, new_disks
from tests.cluster.mortal import KilledError, Life, make_mortal


def options(*words):
    return controller.parse(["--cluster", "c", *words])


def test_without_a_time_there_is_one_round_whose_line_and_code_are_the_jobs(capsys):
    assert rounds(options("--once"), lambda left: ("done", 1)) == 1
    assert capsys.readouterr().out == "done\n"


def test_rounds_go_on_after_one_that_failed(capsys):
    answers = iter([NotControllerError("another controls"), ("done", 0)])

    def do_round(left):
        answer = next(answers, None)
        if answer is None:
            os.kill(os.getpid(), signal.SIGTERM)
            return "last", 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    before = signal.getsignal(signal.SIGTERM)
    assert rounds(options("--for", "600", "--interval", "0.001"), do_round) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("Z ")[2] for line in lines[:3]] == ["another controls", "done", "last"]
    assert lines[3:] == ["Ended by a signal, between two rounds."]
    assert signal.getsignal(signal.SIGTERM) == before


def test_passes_and_rounds_that_are_killed_at_any_commit_are_finished_by_the_next():
    """A broker's disk is lost and comes back; each process dies at its next commit, then two end."""
    with new_disks(configs={"controller.lease.ms": "100"}) as disks:
        disks.cluster.create_topic("t", partitions=3, replication_factor=3)
        disks.cluster.append("t", [(b"%d" % n, b"v") for n in range(30)])
        given = replicate.parse(["--cluster", "c"])
        disks.take_away(1)
        until(disks, lambda cluster: controller.control(cluster, None))
        assert disks.open().image.brokers[1].state is BrokerState.FENCED
        disks.cluster.append("t", [(b"%d" % n, b"w") for n in range(30)])
        disks.give_back(1)
        until(disks, lambda cluster: controller.control(cluster, None))
        until(disks, lambda cluster: replicate.replicate(cluster, given))

        last = disks.open()
        line, code = replicate.replicate(last, given)
        assert (code, line[-17:]) == (0, "all are caught up")
        assert [isr_of(last, "t", number) for number in range(3)] == [[1, 2, 3]] * 3
        assert last.fsck().findings == ()


def until(disks, work):
    """Have a new process do the work and die at its first commit, another at its second, and so on
    until one lives."""
    for at in range(1, 30):
        mortal, life = disks.open(), Life(at)
        make_mortal(mortal._node, life)
        try:
            work(mortal)
        except KilledError:
            continue
        assert not life.is_dead
        return
    pytest.fail("no process lived")

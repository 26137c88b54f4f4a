"""``kill -9`` at each change that a merge, a compaction, a retention pass or a cleaning makes to a
disk: a process that comes afterwards reads what it must, appends, and finishes the work."""

import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.disks import Disks
from tests.cluster.folders import quick_folder
from tests.cluster.killing.processes import act, look, processes_that_start, rows_of
from tests.cluster.killing.stories import CONFIGS, STORIES, Row


@pytest.fixture(scope="module")
def processes():
    return processes_that_start()


def run(processes, body, *arguments):
    """Run a process to its end; return its exit code and the last that it told."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=body, args=(*arguments, theirs))
    process.start()
    theirs.close()
    told = None
    try:
        with ours:
            while True:
                told = ours.recv()
    except EOFError:
        pass
    process.join()
    code = process.exitcode
    process.close()
    return code, told


@dataclass
class Stage:
    """A cluster that has upkeep to do, which can be put back as it was.

    Attributes:
        whole: The records before the upkeep.
        changes: What upkeep without a kill changes.
        final: What is read after it.
    """

    name: str
    base: Path
    template: Path
    whole: list[Row]
    changes: list[str]
    final: list[Row]

    def put(self):
        """Have the cluster as it was; files are links, since none is changed that has its name."""
        shutil.rmtree(self.base)
        shutil.copytree(self.template, self.base, copy_function=os.link)


def stage_of(processes, name, folder):
    """Build a story's cluster, and play it without a kill."""
    story = STORIES[name]
    with pytest.MonkeyPatch.context() as patch:
        for module, attribute, value in story.built_with:
            patch.setattr(module, attribute, value)
        disks = Disks(folder / "live")
        disks.base.mkdir()
        disks.create(3, configs=CONFIGS)
        story.build(disks.cluster)
        whole = rows_of(disks.cluster)
        disks.close()
    stage = Stage(name, disks.base, folder / "template", whole, [], [])
    shutil.copytree(stage.base, stage.template)
    stage.put()
    code, stage.changes = run(processes, act, stage.base, name, None, False)
    assert code == 0
    code, (wrong, found) = run(processes, look, stage.base, name)
    assert (code, wrong) == (0, [])
    assert story.judge(whole, [], found[0]) is None
    stage.final = found[0]
    return stage, found[1]


def kill_at(processes, stage, number, *, is_after):
    """Kill the upkeep at one change; return which it was, and what is wrong afterwards."""
    stage.put()
    code, change = run(processes, act, stage.base, stage.name, number, is_after)
    if code == 0:
        return None, [], []
    assert code == -signal.SIGKILL, (code, change)
    code, (wrong, found) = run(processes, look, stage.base, stage.name)
    assert code == 0
    reason = found and STORIES[stage.name].judge(stage.whole, stage.final, found[0])
    return change, [*wrong, *([reason] if reason else [])], found[1:]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize(
    "moment, is_each",
    [
        pytest.param("after", False, id="after-one-change"),
        pytest.param("after", True, id="after-each-change", marks=pytest.mark.long),
        pytest.param("before", True, id="before-each-change", marks=pytest.mark.long),
    ],
)
def test_upkeep_that_is_killed_at_a_change_is_finished_by_the_next(
    processes, name, moment, is_each, record_property
):
    with quick_folder() as folder:
        stage, last = stage_of(processes, name, folder)
        count = len(stage.changes)
        for kind in STORIES[name].kinds:
            assert any(re.fullmatch(kind, each) for each in stage.changes), (kind, stage.changes)
        failures, kills = [], 0
        # A run that cleans less of the metadata log than the first one has fewer changes.
        for number in range(1, count + 1) if is_each else range(count // 2, 0, -1):
            change, wrong, rows = kill_at(processes, stage, number, is_after=moment == "after")
            if change is None:
                continue  # the metadata log's replaced files go in this run or in the next
            kills += 1
            if not wrong and rows != [last]:
                wrong = [f"at last {rows} are read, and not {last}"]
            failures += [f"at {number}, {change}: {each}" for each in wrong]
            if not is_each:
                break

    record_property("killed", f"{name}: {kills} kills {moment} a change, of {count}")
    assert failures == []
    # Two runs differ by what they clean of the metadata log, which a thread of its own merges.
    assert kills >= (count // 2 if is_each else 1)

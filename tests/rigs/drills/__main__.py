"""Drills of an operator: python -m tests.rigs.drills NAME…|all

Each has a cluster of its own (two `serve`, three voters, four brokers, a disk each), writers, and a
group of two. It breaks something, mends it by the command line, and says how long writers stood, how
long it took until all was healthy, what a person reads meanwhile, and which alerts fire. Nothing that
was started or mounted outlives the command. Linux only; needs root and loop devices; `prometheus` on
the PATH for alerts.
"""

import argparse
import json
import re
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jobs.command_line import Parser
from tests.rigs.cutting.disk import mount_privately, why_not
from tests.rigs.drills.bed import Bed
from tests.rigs.drills.drills import DRILLS, Drill
from tests.rigs.rig import RigError, Say, machine, now, run_rig, write_report

COMMAND = "./spark-submit.sh python -m tests.rigs.drills"
PLACE = "<!-- What follows is written by tests/rigs/drills. -->\n"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__)
    parser.add_argument("drill", nargs="+", choices=["all", *DRILLS], metavar="NAME", help=", ".join(DRILLS))  # fmt: skip
    parser.add_argument("--dir", help="drills that this folder holds are in the report, too (default: a fresh one)")  # fmt: skip
    parser.add_argument("--page", type=Path, help="also have this page end with the report")
    return parser.parse_args(arguments)


def wrong_with(drill: Drill, found: dict[str, Any]) -> list[str]:
    wrong = []
    if drill.stood_s is not None:
        for who, stood, most in zip(("least", "most"), found["stood"][1:], drill.stood_s, strict=True):  # fmt: skip
            if stood > most:
                wrong.append(f"the {who} affected partition stood for {stood} s: at most {most:g} s are wanted")  # fmt: skip
    if found["alerts"] is not None:
        fired, wanted = {*found["alerts"]}, {*drill.alerts.split()}
        wrong += [f"the alert {each} does not fire" for each in sorted(wanted - fired)]
        others = fired - wanted - {*drill.may_fire.split()}
        wrong += [f"the alert {each} fires" for each in sorted(others)]
    return wrong


def run_drill(name: str, folder: Path, say: Say) -> bool:
    """Do a drill, write what was found to its folder, and return whether all was as wanted."""
    drill, began = DRILLS[name], time.monotonic()
    say(f"{drill.number}. {name}: {drill.title}")
    shutil.rmtree(folder, ignore_errors=True)
    with Bed(folder, say) as bed:
        drill.work(bed)
        time.sleep(5)
        alerts = bed.alerts()
        found = bed.verify(may_lose=drill.may_lose)
        bed.check()
        found |= {"ended": now(), "alerts": alerts, "healthy": max(bed.healthy_s, default=None)}
        found |= {"steps": bed.steps, "sentences": bed.sentences()}
        found["wrong"] = [*bed.wrong, *wrong_with(drill, found)]
    write_report(found, folder)
    say("\n".join([f"  {'NOT ' * bool(found['wrong'])}as wanted, {time.monotonic() - began:.0f} s", *found["wrong"]]))  # fmt: skip
    return not found["wrong"]


def report(folder: Path) -> str:
    """Return the report of all drills that a folder holds, in Markdown."""
    files = {name: folder / name / "report.json" for name in DRILLS}
    done = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    of, ended = machine(), max(each["ended"] for each in done.values())
    lines = [
        f"Until {ended}, on {of['cores']} cores and {of['memory_gib']} GiB, {of['system']}, Python"
        f" {of['python']}.",
        "",
        "| # | fault | writers stood: all; least, most affected partition | healthy after | lost, doubled, out of order, unasked for, missed by the group; of | alerts | wanted | as wanted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in done.items():
        drill, counts = DRILLS[name], found["counts"]
        cells = [
            f"[{drill.number}](#{name})", drill.title, "{}; {}, {} s".format(*found["stood"]), f"{found['healthy']} s",
            f"{', '.join(map(str, counts.values()))}; {found['acknowledged']}",
            "not asked" if found["alerts"] is None else ", ".join(found["alerts"]),
            drill.wanted, "**no**" if found["wrong"] else "yes",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    for name, found in done.items():
        lines += ["", f"### {name}", "", *(f"- Not as wanted: {each}." for each in found["wrong"]), ""]  # fmt: skip
        lines += ["Calls of `produce`: {}; failed: {}; the longest: {} s. Records that the group saw twice: {}.".format(*found["calls"], found["seen_twice"]), ""]  # fmt: skip
        lines += ["```text", *found["steps"], "", *found["sentences"], "```"]
    text = re.sub(rf"{folder}/[a-z0-9-]+/", "/", "\n".join(lines) + "\n")
    text = re.sub(rf"\b{re.escape(socket.gethostname())}-(\d+-[0-9a-f]+)\b", r"host-\1", text)
    return re.sub("\n\n\n+", "\n\n", text)


def main(arguments: list[str]) -> int:
    """Run; return 0 if each drill was as wanted, 1 if one was not, 2 if there was no run."""
    given = parse(arguments)

    def run(say: Say) -> int:
        if (reason := why_not("ext4")) is not None:
            raise RigError(f"drills can't be done here, since {reason}: run them as root, on Linux")
        mount_privately()
        folder = Path(given.dir or tempfile.mkdtemp(prefix="drills-")).absolute()
        chosen = [*DRILLS] if "all" in given.drill else given.drill
        is_as_wanted = all([run_drill(name, folder / name, say) for name in chosen])
        (folder / "report.md").write_text(report(folder), "utf-8")
        if given.page is not None:
            head, _, _ = given.page.read_text("utf-8").partition(PLACE)
            given.page.write_text(f"{head}{PLACE}\n{report(folder)}", "utf-8")
        say(f"The report is {folder / 'report.md'}")
        return 0 if is_as_wanted else 1

    return run_rig(COMMAND, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

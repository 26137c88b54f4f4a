"""See a replicated log tortured: ./spark-submit.sh python tests/rigs/torture.py --minutes 3

Starts clients, controllers and Spark jobs against a cluster of three brokers, kills and freezes
their processes and takes, fills, wipes, sets back, hangs and forges the brokers' disks at random
moments; then heals all, and verifies from what the clients wrote down, and from the tables, that
nothing was lost, doubled, reordered or read that should not be. With --voters 3 it does the same to
the roots of the metadata quorum. Linux only; "full" needs root.
"""

import argparse
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from jobs.command_line import Parser
from tests.rigs.torturing.folder import TortureError, TortureFolder
from tests.rigs.torturing.processes import PLAIN_ROLES, ROLES
from tests.rigs.torturing.report import write_report
from tests.rigs.torturing.run import Plan, run

COMMAND = "./spark-submit.sh python tests/rigs/torture.py"
MINUTES_MAX = 24 * 60
VOTERS = (1, 3, 5)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    parser.add_argument(
        "--minutes", type=_minutes, default=3.0, help="how long faults go on (default 3)"
    )
    parser.add_argument("--seed", type=_whole, help="of the faults (default: the time of day)")
    parser.add_argument(
        "--voters",
        type=int,
        choices=VOTERS,
        default=1,
        help="roots of the metadata log; the roots of three or five are tortured, too (default 1)",
    )
    parser.add_argument(
        "--without-spark", action="store_true", help="only clients of plain Python: lighter by far"
    )
    parser.add_argument(
        "--spare-brokers", action="store_true", help="leave the brokers' disks alone"
    )
    parser.add_argument("--dir", help="a new or empty folder (default: a fresh one)")
    return parser.parse_args(arguments)


def _minutes(text: str) -> float:
    return _number(text, float, lambda value: 0.1 <= value <= MINUTES_MAX, "0.1 to 1440 minutes")


def _whole(text: str) -> int:
    return int(_number(text, int, lambda value: value >= 0, "a whole number from 0 on"))


def _number(
    text: str, kind: Callable[[str], float], is_allowed: Callable[[float], bool], allowed: str
) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not is_allowed(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: give {allowed}")
    return value


def main(arguments: list[str]) -> int:
    """Run; return 0 if nothing was found, 1 if something was, 2 if there was no run."""
    given = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        # An end like any other: what was started is killed, and disks are unmounted.
        signal.signal(number, _interrupt)
    console = Console(highlight=False, soft_wrap=True)
    seed = given.seed if given.seed is not None else int(time.time())
    try:
        path = Path(given.dir or tempfile.mkdtemp(prefix="torture-"))
        folder = TortureFolder.begin(path, given.voters)
        roles = PLAIN_ROLES if given.without_spark else ROLES

        def say(text: str) -> None:
            console.print(text, markup=False)

        plan = Plan(given.minutes, seed, roles, given.spare_brokers)
        report = run(folder, plan, say)
    except TortureError as error:
        console.print(f"{COMMAND}: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print(f"{COMMAND}: it was interrupted", style="red")
        return 2
    console.print(write_report(report, folder.report), markup=False)
    verdict = "found NOTHING wrong" if report.exit_code == 0 else "found ANOMALIES"
    console.print(f"\nSeed {seed} {verdict}; everything is kept in {folder.path}", markup=False)
    return report.exit_code


def _interrupt(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

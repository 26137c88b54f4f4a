"""Leave a cluster running under load: ./spark-submit.sh python tests/rigs/soak.py --minutes 5

Processes append, with and without a producer, read, stream into a sink, open and close the
cluster, move partitions, replicate and control. What each tenth of the run took and held is
compared with the second tenth (beside other work, with the fifth), and nothing may have grown. At
the end all that was acknowledged and is retained must be there once and in order, and fsck must
find nothing. Linux only.
"""

import argparse
import json
import math
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from jobs.command_line import Parser
from tests.rigs.soaking.folder import SoakError, SoakFolder
from tests.rigs.soaking.report import LONG_RUN_MINUTES
from tests.rigs.soaking.running import run

COMMAND = "./spark-submit.sh python tests/rigs/soak.py"
MINUTES_MAX = 7 * 24 * 60
WARM_UP_S = 150.0
"""Until retention of a minute, the delay of deletion and the first moves have begun to take effect,
and Spark has compiled what it runs."""

LONG_WARM_UP_S = 1500.0
"""Also until tables have all the commits and checkpoints that they keep, a thousand and ten, at
about one commit a second, and each checkpoint has ten minutes of tombstones. Only a run that is
long enough to judge these files needs it."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    parser.add_argument("--minutes", type=_minutes, default=5.0, help="how long (default 5)")
    parser.add_argument(
        "--warm-up",
        type=_seconds,
        help=f"seconds before that (default {WARM_UP_S:g}; {LONG_WARM_UP_S:g} from"
        f" {LONG_RUN_MINUTES:g} minutes on)",
    )
    parser.add_argument(
        "--times-are-shown",
        action="store_true",
        help="print p50 and p99, and don't judge them; hold the rest against the fifth tenth, not"
        " the second: for a machine that does other work",
    )
    parser.add_argument(
        "--pauses",
        type=_times,
        default=1.0,
        help="how many times as long as usual each client pauses after a piece of work (default 1)",
    )
    parser.add_argument("--dir", help="a new or empty folder (default: a fresh one)")
    given = parser.parse_args(arguments)
    if given.warm_up is None:
        given.warm_up = LONG_WARM_UP_S if given.minutes >= LONG_RUN_MINUTES else WARM_UP_S
    return given


def _minutes(text: str) -> float:
    return _number(text, 0.1, MINUTES_MAX, "minutes")


def _seconds(text: str) -> float:
    return _number(text, 0.0, 3600.0, "seconds")


def _times(text: str) -> float:
    return _number(text, 0.0, 1000.0, "times")


def _number(text: str, low: float, high: float, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: give {low:g} to {high:g} {unit}"
        )
    return value


def main(arguments: list[str]) -> int:
    """Run; return 0 if nothing grew and nothing is wrong, 1 if not so, 2 if there was no run."""
    given = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        folder = SoakFolder.begin(Path(given.dir or tempfile.mkdtemp(prefix="soak-")))
        report = run(
            folder,
            given.minutes,
            given.warm_up,
            lambda text: print(text, flush=True),
            pauses=given.pauses,
            times_are_judged=not given.times_are_shown,
        )
    except SoakError as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{COMMAND}: it was interrupted", file=sys.stderr)
        return 2
    folder.report.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    print(f"\n{report.text()}\nEverything is kept in {folder.path}")
    return report.exit_code


def _interrupt(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

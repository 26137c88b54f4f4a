"""Leave a cluster running under load: ./spark-submit.sh python tests/rigs/soak.py --minutes 5

Processes append, with and without a producer, read, stream into a sink, open and close the
cluster, move partitions, replicate and control. What each tenth of the run took and held is
compared with the second tenth (beside other work, with the fifth), and nothing may have grown. At
the end all that was acknowledged and is retained must be there once and in order, and fsck must
find nothing. Linux only.
"""

import argparse
import sys

from jobs.command_line import Parser
from tests.rigs.rig import Say, add_folder, new_folder, number, run_rig, write_report
from tests.rigs.soaking.folder import SoakFolder
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
    parser = Parser(COMMAND, __doc__)
    parser.add_argument(
        "--minutes",
        type=number(0.1, MINUTES_MAX, "minutes"),
        default=5.0,
        help="how long (default 5)",
    )
    parser.add_argument(
        "--warm-up",
        type=number(0, 3600, "seconds"),
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
        type=number(0, 1000, "times"),
        default=1.0,
        help="how many times as long as usual each client pauses after a piece of work (default 1)",
    )
    add_folder(parser)
    given = parser.parse_args(arguments)
    if given.warm_up is None:
        given.warm_up = LONG_WARM_UP_S if given.minutes >= LONG_RUN_MINUTES else WARM_UP_S
    return given


def main(arguments: list[str]) -> int:
    """Run; return 0 if nothing grew and nothing is wrong, 1 if not so, 2 if there was no run."""
    given = parse(arguments)

    def soak(say: Say) -> int:
        folder = SoakFolder.begin(new_folder(given.dir, "soak-"))
        report = run(
            folder,
            given.minutes,
            given.warm_up,
            say,
            pauses=given.pauses,
            times_are_judged=not given.times_are_shown,
        )
        write_report(report.as_dict(), folder.path)
        say(f"\n{report.text()}\nEverything is kept in {folder.path}")
        return report.exit_code

    return run_rig(COMMAND, soak)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

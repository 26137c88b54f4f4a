"""See a replicated log tortured: ./spark-submit.sh python tests/rigs/torture.py --minutes 3

Starts clients, controllers and Spark jobs against a cluster of three brokers, kills and freezes
their processes and takes, fills, wipes, sets back, hangs and forges the brokers' disks at random
moments; then heals all, and verifies from what the clients wrote down, and from the tables, that
nothing was lost, doubled, reordered or read that should not be. With --voters 3 it does the same to
the roots of the metadata quorum. Linux only; "full" needs root.
"""

import argparse
import sys
import time

from jobs.command_line import Parser
from tests.rigs.rig import Say, add_folder, new_folder, number, run_rig, write_report
from tests.rigs.torturing.folder import TortureFolder
from tests.rigs.torturing.processes import PLAIN_ROLES, ROLES
from tests.rigs.torturing.run import Plan, run

COMMAND = "./spark-submit.sh python tests/rigs/torture.py"
MINUTES_MAX = 24 * 60
VOTERS = (1, 3, 5)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__)
    parser.add_argument(
        "--minutes",
        type=number(0.1, MINUTES_MAX, "minutes"),
        default=3.0,
        help="how long faults go on (default 3)",
    )
    parser.add_argument("--seed", type=int, help="of the faults (default: the time of day)")
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
    add_folder(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run; return 0 if nothing was found, 1 if something was, 2 if there was no run."""
    given = parse(arguments)
    seed = given.seed if given.seed is not None else int(time.time())
    roles = PLAIN_ROLES if given.without_spark else ROLES

    def torture(say: Say) -> int:
        folder = TortureFolder.begin(new_folder(given.dir, "torture-"), given.voters)
        report = run(folder, Plan(given.minutes, seed, roles, given.spare_brokers), say)
        say(write_report(report, folder.path))
        verdict = "found NOTHING wrong" if report["exit_code"] == 0 else "found ANOMALIES"
        say(f"\nSeed {seed} {verdict}; everything is kept in {folder.path}")
        return int(report["exit_code"])

    return run_rig(COMMAND, torture)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

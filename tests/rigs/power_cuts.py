"""Cut the power of a cluster's disk: ./spark-submit.sh python tests/rigs/power_cuts.py --cuts 250

Processes create a cluster on a disk that is an image, append, create and delete topics, register
brokers, control. At random moments the disk is cut off in a copy, which then has what a power cut
leaves. Each copy is mounted and opened: all acknowledged records must be there, every invariant
must hold, and each partition must take appends again. Linux only; needs root, loop devices and
mkfs.xfs.
"""

import argparse
import sys
import time

from jobs.command_line import Parser
from tests.rigs.cutting.disk import FILE_SYSTEMS
from tests.rigs.cutting.run import report_of, run
from tests.rigs.rig import Say, add_folder, new_folder, number, run_rig, write_report

COMMAND = "./spark-submit.sh python tests/rigs/power_cuts.py"
CUTS_MAX = 100_000


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__)
    parser.add_argument(
        "--cuts", type=number(1, CUTS_MAX, "cuts", int), default=50, help="how many (default 50)"
    )
    parser.add_argument(
        "--disk", choices=sorted(FILE_SYSTEMS), default="ext4", help="its file system"
    )
    parser.add_argument("--seed", type=int, help="of the moments (default: the time of day)")
    add_folder(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run; return 0 if every cut left a sound cluster, 1 if one did not, 2 if there was no run."""
    given = parse(arguments)
    seed = given.seed if given.seed is not None else int(time.time())

    def cut(say: Say) -> int:
        folder = new_folder(given.dir, "power-cuts-")
        report = report_of(given.disk, seed, run(folder, given.disk, given.cuts, seed, say))
        say(f"\n{write_report(report, folder)}What is kept is in {folder}")
        return 1 if report["wrong"] else 0

    return run_rig(COMMAND, cut)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

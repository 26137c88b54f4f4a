"""Cut the power of a cluster's disk: ./spark-submit.sh python tests/rigs/power_cuts.py --cuts 250

Processes create a cluster on a disk that is an image, append, create and delete topics, register
brokers, control. At random moments the disk is cut off in a copy, which then has what a power cut
leaves. Each copy is mounted and opened: all acknowledged records must be there, every invariant
must hold, and each partition must take appends again. Linux only; needs root, loop devices and
mkfs.xfs.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from jobs.command_line import Parser
from tests.rigs.cutting.disk import FILE_SYSTEMS, CutError
from tests.rigs.cutting.run import report_of, run

COMMAND = "./spark-submit.sh python tests/rigs/power_cuts.py"
CUTS_MAX = 100_000


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    parser.add_argument("--cuts", type=_count, default=50, help="how many (default 50)")
    parser.add_argument(
        "--disk", choices=sorted(FILE_SYSTEMS), default="ext4", help="its file system"
    )
    parser.add_argument("--seed", type=int, help="of the moments (default: the time of day)")
    parser.add_argument("--dir", help="a folder with 2 GB free (default: a fresh one)")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= CUTS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: give 1 to {CUTS_MAX}")
    return int(text)


def main(arguments: list[str]) -> int:
    """Run; return 0 if every cut left a sound cluster, 1 if one did not, 2 if there was no run."""
    given = parse(arguments)
    seed = given.seed if given.seed is not None else int(time.time())
    folder = Path(given.dir or tempfile.mkdtemp(prefix="power-cuts-")).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        verdicts = run(folder, given.disk, given.cuts, seed, lambda text: print(text, flush=True))
    except (CutError, OSError) as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{COMMAND}: it was interrupted", file=sys.stderr)
        return 2
    report = report_of(given.disk, seed, verdicts)
    text = json.dumps(report, indent=2)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\nWhat is kept is in {folder}")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

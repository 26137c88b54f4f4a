"""Spark and YARN over several hosts of this machine: python -m tests.rigs.hosts SCENARIO…

Hosts are namespaces, with an address, a name and a root file system each. A scenario starts them, a
store beside them, Spark's daemons or YARN, and jobs; some kill a host, or cut it off. Nothing that
was started outlives the command. Linux only; needs root, Java 17, Maven, and what
`python -m tests.rigs.stores fetch` fetches.
"""

import argparse
import sys
import time

from jobs.command_line import Parser
from tests.rigs.hosts.bed import WrongError, make
from tests.rigs.hosts.scenarios import SCENARIOS
from tests.rigs.rig import Say, add_folder, machine, new_folder, now, run_rig, write_report
from tests.rigs.stores.servers import VERSITYGW

COMMAND = "./spark-submit.sh python -m tests.rigs.hosts"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__)
    names = ["all", *SCENARIOS]
    parser.add_argument("scenario", nargs="+", choices=names, help=", ".join(names))
    add_folder(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run; return 0 if each scenario found all sound, 1 if one did not, 2 if there was no run."""
    given = parse(arguments)
    chosen = [*SCENARIOS] if "all" in given.scenario else given.scenario

    def run(say: Say) -> int:
        folder, results = new_folder(given.dir, "hosts-"), dict[str, object]()
        VERSITYGW.fetch()
        make()
        is_sound = True
        for number, name in enumerate(chosen):
            began = time.monotonic()
            try:
                found, outcome = SCENARIOS[name](folder / f"{number}-{name}"), "sound"
            except WrongError as error:
                found, outcome, is_sound = [str(error)], "WRONG", False
            seconds = round(time.monotonic() - began)
            results[f"{number}-{name}"] = {"outcome": outcome, "seconds": seconds, "found": found}
            say(f"{name}: {outcome}, {seconds} s")
            for each in found:
                say(f"  {each}")
        write_report({"machine": machine(), "ended": now(), "scenarios": results}, folder)
        say(f"What is kept is in {folder}")
        return 0 if is_sound else 1

    return run_rig(COMMAND, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fetch, start and stop the servers of stores: python -m tests.rigs.stores fetch|start|stop

`fetch` builds or loads them into a folder of the user's cache. `start` starts those that are there,
each on a free port, and says where; `stop` ends them. `pytest --stores` starts servers of its own.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from jobs.command_line import Parser
from tests.rigs.rig import RigError, new_folder
from tests.rigs.stores.servers import BUCKETS, SERVERS, cache


def fetch() -> int:
    code = 0
    for each in SERVERS:
        began = time.monotonic()
        try:
            each.fetch()
            print(f"{each.name} {each.version}: in {cache()}, {time.monotonic() - began:.0f} s")
        except RigError as error:
            code = 1
            print(error)
    return code


def start(given: str | None) -> int:
    folder = new_folder(given, "stores-")
    pids = {}
    for each in SERVERS:
        if (missing := each.why_absent()) is not None:
            print(missing)
            continue
        running = each.start(folder / each.name)
        pids[each.name] = running.process.pid
        (folder / "pids.json").write_text(json.dumps(pids), "utf-8")
        print(f"{each.name} {each.version}: 127.0.0.1:{running.port}, log in {running.folder}/log")
    print(f"buckets: {', '.join(BUCKETS)}; stop by: python -m tests.rigs.stores stop {folder}")
    return 0


def stop(given: str | None) -> int:
    file = Path(given or ".") / "pids.json"
    try:
        pids = json.loads(file.read_text("utf-8"))
    except OSError:
        raise RigError(f"{file} is not there: name the folder that `start` was given") from None
    for name, pid in pids.items():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        print(f"{name}: stopped")
    file.unlink()
    return 0


def main(arguments: list[str]) -> int:
    parser = Parser("python -m tests.rigs.stores", __doc__)
    parser.add_argument("verb", choices=["fetch", "start", "stop"])
    parser.add_argument("dir", nargs="?", help="folder of what runs (default: a fresh one)")
    given = parser.parse_args(arguments)
    try:
        return {"fetch": lambda _: fetch(), "start": start, "stop": stop}[given.verb](given.dir)
    except RigError as error:
        print(error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

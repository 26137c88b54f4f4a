"""Measures the figures of docs/measured.md, each next to a peer that runs beside it.

    ./spark-submit.sh jobs/benchmark.py [--only NAME ...] [--records N] [--runs N]
                                        [--batches N] [--json | --markdown] [--dir DIR]

Ours and the peer alternate, after one run of each to warm up; a row has the medians and their
ratio. The result goes to standard output, progress to standard error.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from jobs.benchmarks.bench import Bench, machine, part_streams, say
from jobs.benchmarks.compaction import compaction
from jobs.benchmarks.console_page import console
from jobs.benchmarks.disk import disk
from jobs.benchmarks.failover import failover
from jobs.benchmarks.memory import memory
from jobs.benchmarks.merged import merged
from jobs.benchmarks.old_log import old_log
from jobs.benchmarks.opening import opening
from jobs.benchmarks.processes import processes
from jobs.benchmarks.producer import producer
from jobs.benchmarks.quorum import quorum
from jobs.benchmarks.report import Row, as_json, as_markdown, as_text
from jobs.benchmarks.rounds import append_commits, fetch_round
from jobs.benchmarks.scale import creation, history, hundred_thousand, million
from jobs.benchmarks.serving import serve
from jobs.benchmarks.small_append import long_partition, small_append
from jobs.benchmarks.small_spark import small_spark
from jobs.benchmarks.streaming import micro_batch, stream
from jobs.benchmarks.tables import tables
from jobs.benchmarks.thousand import thousand
from jobs.benchmarks.throughput import append, append_keyless, processor, read, replicate
from jobs.benchmarks.tools import tools
from jobs.benchmarks.view import view
from jobs.command_line import Parser

COMMAND = "./spark-submit.sh jobs/benchmark.py"

DEFAULT: dict[str, Callable[[Bench], list[Row]]] = {
    # Measurements without a Spark session come first: a session would take processor time.
    "small": small_append,
    "failover": failover,
    "create-topic": creation,
    "commits": append_commits,
    "processes": processes,
    "producer": producer,
    "append": append,
    "append-keyless": append_keyless,
    "replicate": replicate,
    "read": read,
    "view": view,
    "stream": stream,
    "disk": disk,
    "small-spark": small_spark,
}
LONGER: dict[str, Callable[[Bench], list[Row]]] = {
    "processor": processor,
    "serve": serve,
    "thousand": thousand,
    "micro-batch": micro_batch,
    "open": opening,
    "tables": tables,
    "long": long_partition,
    "merged": merged,
    "compaction": compaction,
    "round": fetch_round,
    "history": history,
    "old-log": old_log,
    "100k": hundred_thousand,
    "1m": million,
    "memory": memory,
    "quorum": quorum,
    "tools": tools,
    "console": console,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__.splitlines()[0])
    known = [*DEFAULT, *LONGER]
    parser.add_argument(
        "--only",
        nargs="+",
        choices=known,
        metavar="NAME",
        help=f"measure only these: {', '.join(known)} (the last {len(LONGER)} run only when named)",
    )
    parser.add_argument(
        "--records", "--rows", type=_count, default=5_000_000, help="records of a large append"
    )
    parser.add_argument("--runs", type=_count, default=3, help="runs of ours and of the peer")
    parser.add_argument(
        "--batches", type=_count, default=1000, help="micro-batches of the query of micro-batch"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON in place of a table")
    form.add_argument("--markdown", action="store_true", help="print the table of docs/measured.md")
    parser.add_argument(
        "--dir",
        type=_folder,
        help="a folder on the disk to measure (default: the system's temporary one)",
    )
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    digits = text.replace(",", "").replace("_", "")
    if not (digits.isdecimal() and int(digits)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: give 1 or more")
    return int(digits)


def _folder(text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} can't be used ({error.strerror}): give a folder that exists or can be made"
        ) from None
    return folder


def main(arguments: list[str]) -> None:
    """Measure and print."""
    chosen = parse(arguments)
    part_streams(is_result_alone=chosen.json)
    folder = Path(tempfile.mkdtemp(prefix="kafka_on_spark-benchmark-", dir=chosen.dir))
    bench = Bench(folder, records=chosen.records, runs=chosen.runs, batches=chosen.batches)
    rows: list[Row] = []
    try:
        for name, measure in (DEFAULT | LONGER).items():
            if name in (chosen.only or DEFAULT):
                say(f"{name}:")
                rows.extend(measure(bench))
    finally:
        bench.close()
    if chosen.json:
        print(json.dumps(as_json(machine(), rows), ensure_ascii=False))
    else:
        print((as_markdown if chosen.markdown else as_text)(machine(), rows))


if __name__ == "__main__":
    main(sys.argv[1:])

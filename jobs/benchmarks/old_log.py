"""Clusters with a long past: what 10,000, 100,000 and 1,000,000 records of metadata cost those who
open, follow, decide and read history."""

from pathlib import Path
from typing import Any

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, row
from jobs.benchmarks.scale import work_in_process

SIZES = (10_000, 100_000, 1_000_000)
PROCESS = "jobs.benchmarks.old_log_process"


def old_log(bench: Bench) -> list[Row]:
    """Measure each size against the smallest, each opening in a process of its own, in turn."""
    roots = {size: bench.folder / f"log-{size}" for size in SIZES}
    for size, root in roots.items():
        root.mkdir()
        say(f"  {size:,} records: {_work('make', root, size)}, {_work('files', root)}")
    runs = range(2 * bench.runs + 1)
    opened = [{size: _work("open", root) for size, root in roots.items()} for _ in runs][1:]
    decided = [{size: _work("decide", root) for size, root in roots.items()} for _ in runs][1:]
    rows = []
    for size in SIZES:
        name = f"a metadata log of {size:,} records"
        rows += [
            _row(f"{name}: open", "ms", opened, size, lambda each: 1000 * each["seconds"]),
            _row(
                f"{name}: open, processor time",
                "ms",
                opened,
                size,
                lambda each: 1000 * each["processor_seconds"],
            ),
            _row(f"{name}: peak memory", "GiB", opened, size, lambda each: each["peak_gib"]),
            _row(f"{name}: a decision", "ms", decided, size, lambda each: each["commit_ms"]),
            _row(f"{name}: to follow one", "ms", decided, size, lambda each: each["follow_ms"]),
        ]
        read = _work("history", roots[size])
        rows.append(row(f"{name}: to read all of it", [read["seconds"]], "s"))
        rows.append(row(f"{name}: the same, peak memory", [read["peak_gib"]], "GiB"))
    return rows


def _work(work: str, root: Path, *counts: int) -> dict[str, Any]:
    return work_in_process(PROCESS, work, root, *counts)


def _row(name: str, unit: str, found: list[dict[int, Any]], size: int, value: Any) -> Row:
    mine = [value(each[size]) for each in found]
    if size == SIZES[0]:
        return row(name, mine, unit)
    return row(
        name,
        mine,
        unit,
        peer=f"with {SIZES[0]:,}",
        peer_values=[value(each[SIZES[0]]) for each in found],
        budget=Budget(bound=1.2, on="ratio"),
    )

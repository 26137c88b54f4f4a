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
            _row(f"{name}: {what}", unit, found, size, key)
            for what, unit, found, key in (
                ("open", "s", opened, "seconds"),
                ("open, processor time", "s", opened, "processor_seconds"),
                ("open, peak memory", "GiB", opened, "peak_gib"),
                ("a decision", "ms", decided, "commit_ms"),
                ("a decision, processor time", "ms", decided, "commit_processor_ms"),
                ("to follow one", "ms", decided, "follow_ms"),
                ("to follow one, processor time", "ms", decided, "follow_processor_ms"),
            )
        ]
        read = _work("history", roots[size])
        rows.append(row(f"{name}: to read all of it", [read["seconds"]], "s"))
        rows.append(row(f"{name}: the same, peak memory", [read["peak_gib"]], "GiB"))
    return rows


def _work(work: str, root: Path, *counts: int) -> dict[str, Any]:
    return work_in_process(PROCESS, work, root, *counts)


def _row(name: str, unit: str, found: list[dict[int, Any]], size: int, key: str) -> Row:
    mine = [each[size][key] for each in found]
    if size == SIZES[0]:
        return row(name, mine, unit)
    return row(
        name,
        mine,
        unit,
        peer=f"with {SIZES[0]:,}",
        peer_values=[each[SIZES[0]][key] for each in found],
        budget=Budget(bound=1.2, on="ratio"),
    )

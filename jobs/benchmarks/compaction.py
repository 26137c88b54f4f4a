"""A log of ten million keys that one task compacts: what its process holds at most, and how long it
takes, with the memory for keys that is the default and with as much as all of them need."""

from pathlib import Path
from typing import Any, Final

from jobs.benchmarks.bench import Bench
from jobs.benchmarks.report import Budget, Row, row
from jobs.benchmarks.scale import work_in_process

KEYS = 10_000_000
PROCESS: Final = "jobs.benchmarks.compaction_process"

ROUNDS, AT_ONCE = "rounds", "at-once"
"""The topics, which hold the same: one is compacted with the default, one with enough memory."""


def compaction(bench: Bench) -> list[Row]:
    """Measure each in a process of its own, once.

    Raises:
        subprocess.CalledProcessError: It failed; standard error says why.
    """
    root = bench.folder / "compaction"
    root.mkdir()
    name = f"compact a log of {KEYS:,} keys, a tenth of them twice, in one task"
    rows = []
    for work, how in ((ROUNDS, "the default memory for keys"), (AT_ONCE, "all keys at once")):
        log_bytes = _work("make", root / work)["log_bytes"]
        rows += _rows(f"{name}, {how}", _work(work, root / work), log_bytes)
    return rows


def _work(work: str, root: Path) -> dict[str, Any]:
    return work_in_process(PROCESS, work, root, KEYS)


def _rows(name: str, said: dict[str, Any], log_bytes: int) -> list[Row]:
    return [
        row(f"{name}: peak memory", [said["peak_gib"]], "GiB", budget=Budget(bound=1, on="value")),
        row(f"{name}: elapsed", [said["seconds"]], "s"),
        row(f"{name}: processor time", [said["processor_seconds"]], "s"),
        row(f"{name}: bytes of the log", [log_bytes / said["seconds"] / 1e6], "MB/s"),
    ]

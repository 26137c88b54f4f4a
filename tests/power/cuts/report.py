"""What a run of power cuts has found: report.json, and lines on the terminal."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tests.power.cuts.checker import Verdict
from tests.torture.harness.report import machine, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one run.

    Attributes:
        file_system: Of the disk.
        seed: The moments of the cuts came from it; what the processes did then did not.
        ended_at: UTC, ISO 8601.
        machine: Cores, memory, system.
        cuts: How many.
        sound: How many left a cluster with which nothing is wrong.
        promised: Records that had been acknowledged, over all cuts.
        empty_files: Files of no bytes under their final names, by ending, over all cuts.
        cleaned: Cuts at which a table's first commits had been deleted.
        seconds: How long one check took on average.
        wrong: What must not be, by cut.
    """

    file_system: str
    seed: int
    ended_at: str
    machine: dict[str, Any]
    cuts: int
    sound: int
    promised: int
    empty_files: dict[str, int]
    cleaned: int
    seconds: float
    wrong: dict[int, list[str]]

    @classmethod
    def of(cls, file_system: str, seed: int, verdicts: Sequence[Verdict]) -> Self:
        """Return the report on some cuts."""
        empty: Counter[str] = Counter()
        for each in verdicts:
            empty.update(each.empty)
        wrong = {each.cut: each.wrong for each in verdicts if each.wrong}
        return cls(
            file_system=file_system,
            seed=seed,
            ended_at=now(),
            machine=machine(),
            cuts=len(verdicts),
            sound=len(verdicts) - len(wrong),
            promised=sum(each.promised for each in verdicts),
            empty_files=dict(empty),
            cleaned=sum(each.first_commit > 0 for each in verdicts),
            seconds=round(sum(each.seconds for each in verdicts) / max(len(verdicts), 1), 2),
            wrong=wrong,
        )

    @property
    def exit_code(self) -> int:
        """0 if nothing was found."""
        return 1 if self.wrong else 0

    def write(self, file: Path) -> None:
        """Write report.json."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def text(self) -> str:
        """Return the report in lines."""
        return "\n".join(
            (
                f"{self.cuts} power cuts on {self.file_system}, {self.sound} left a sound cluster",
                f"{self.promised:,} acknowledged records looked for, over all cuts",
                f"{self.cleaned} cuts after commits had been deleted",
                f"files without bytes: {self.empty_files or 'none'}",
                f"{self.seconds} s a check",
                *(f"cut {cut}: {each}" for cut, found in self.wrong.items() for each in found),
            )
        )

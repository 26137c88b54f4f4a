"""What a client was told, or did: a line of JSON with its time for each call, and how it is read again."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Notes:
    """Appends to one client's notes. What is noted after a call's answer is so before the next one."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.jsonl").open("a", encoding="utf-8", buffering=1)

    def add(self, kind: str, **what: Any) -> None:
        line = {"at": time.time(), "kind": kind, **what}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


def read_notes(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the clients' names and lines. A last line may have been cut off by a kill."""
    for file in sorted(folder.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield file.stem, json.loads(line)

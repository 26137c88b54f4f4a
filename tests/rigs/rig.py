"""A rig from its command line to its report: options, a folder, an end that cleans up, an exit code."""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from jobs.command_line import Parser

CHECKOUT: Final = Path(__file__).resolve().parents[2]

Say = Callable[[str], None]
"""Prints a line for people."""


class RigError(Exception):
    """A run can't begin or go on; the text says why and what to do, in a sentence."""


def number(low: float, high: float, unit: str, kind: type = float) -> Callable[[str], Any]:
    """Return what reads an option that is a number between two bounds."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed: give {low:g} to {high:g} {unit}"
            )
        return value

    return read


def add_folder(parser: Parser) -> None:
    """Add the option that names a run's folder."""
    parser.add_argument("--dir", help="a new or empty folder (default: a fresh one)")


def new_folder(given: str | None, prefix: str) -> Path:
    """Return the folder of a run: the one that was given, or a fresh one."""
    folder = Path(given or tempfile.mkdtemp(prefix=prefix)).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RigError(
                f"--dir {given} holds something: name a new or an empty folder, since what a run"
                " leaves is of one run"
            )
    except OSError as error:
        raise RigError(
            f"--dir {given} can't be used ({error.strerror}): name a folder that can be made"
        ) from None
    return folder


def run_rig(command: str, work: Callable[[Say], int]) -> int:
    """Return the exit code of `work`: 0 if it found nothing, 1 if it did; 2 if there was no run.

    A signal is an end like any other: what was started is killed, and disks are unmounted.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    try:
        return work(lambda text: print(text, flush=True))
    except RigError as error:
        said = str(error)
    except KeyboardInterrupt:
        said = "it was interrupted"
    print(f"{command}: {said}", file=sys.stderr)
    return 2


def _interrupt(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def write_report(values: Mapping[str, Any], folder: Path) -> str:
    """Write report.json to a run's folder; return what stands in it."""
    text = json.dumps(values, indent=2) + "\n"
    (folder / "report.json").write_text(text, encoding="utf-8")
    return text


def machine() -> dict[str, Any]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

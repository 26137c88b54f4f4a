"""Disks that are files, and the system's commands that make and mount them."""

import subprocess
from pathlib import Path


def why_failed(*command: str) -> str | None:
    """Run a command; return why it failed, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def make_image(image: Path, size_bytes: int) -> None:
    """Make a file of a size, which takes as much as is written to it."""
    with image.open("wb") as file:
        file.truncate(size_bytes)

"""A Python that lacks the package on executors, where LACKS is set: Spark starts it."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PYTHON = f"""\
#!/usr/bin/env bash
without=$(printf %s "$PYTHONPATH" | tr : '\\n' | grep -v '^{ROOT}/*$' | paste -sd:)
case ${{ON_EXECUTOR:+$LACKS}} in
  "") exec {sys.executable} "$@" ;;
  *) PYTHONPATH=$without exec {sys.executable} "$@" ;;
esac
"""


def write_python(folder: Path) -> Path:
    """Write the program into a folder; return it."""
    program = folder / "python"
    program.write_text(PYTHON)
    program.chmod(0o755)
    return program

"""A Python that lacks, on executors, what LACKS says: Spark starts it, whichever the session has."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PYTHON = f"""\
#!/usr/bin/env bash
without=$(printf %s "$PYTHONPATH" | tr : '\\n' | grep -v '^{ROOT}/*$' | paste -sd:)
case ${{ON_EXECUTOR:+$LACKS}} in
  package) PYTHONPATH=$without exec {sys.executable} "$@" ;;
  everything) PYTHONPATH=$without exec {sys.base_prefix}/bin/python3 "$@" ;;
  version) PYTHONPATH={{folder}}:$PYTHONPATH exec {sys.executable} "$@" ;;
  *) exec {sys.executable} "$@" ;;
esac
"""


def write_python(folder: Path) -> Path:
    """Write the program and another version of the package into a folder; return the program."""
    (folder / "kafka_on_spark").mkdir()
    (folder / "kafka_on_spark" / "__init__.py").write_text('__version__ = "0.0.9"\n')
    program = folder / "python"
    program.write_text(PYTHON.replace("{folder}", str(folder)))
    program.chmod(0o755)
    return program

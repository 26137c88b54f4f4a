"""What everything stands on: errors, ids, settings, text, moments."""

from typing import Final

__version__: Final = "0.1.0"
"""The package's version, as in pyproject.toml: a checkout that is not installed has it too."""

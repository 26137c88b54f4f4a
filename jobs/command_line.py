"""Parses the command lines of jobs; an error is one sentence, without a usage text."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Parses a job's options; a wrong command line ends with `exit_code`."""

    def __init__(self, command: str, description: str | None, *, exit_code: int = 2) -> None:
        super().__init__(prog=command, description=description)
        self._exit_code = exit_code

    def error(self, message: str) -> NoReturn:
        """Print the error in one sentence, and exit."""
        self.exit(self._exit_code, f"{self.prog}: {message}; --help lists the options\n")

"""The command lines of jobs: what is wrong with one is said in a sentence, without a usage."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Parses a job's options; `exit_code` is for a command line that is wrong."""

    def __init__(self, command: str, description: str | None, *, exit_code: int = 2) -> None:
        super().__init__(prog=command, description=description)
        self._exit_code = exit_code

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one sentence."""
        self.exit(self._exit_code, f"{self.prog}: {message}; --help lists the options\n")

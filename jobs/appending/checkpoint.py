"""Lists of the files that a job has appended or is about to, a number each, in a folder or a store.

A list is there whole or not at all, and the first run that writes a number's list has the number.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from jobs.command_line import JobError
from kafka_on_spark.cli.call.options import pairs
from kafka_on_spark.storage.roots.roots import (
    RootFiles,
    StorageOptions,
    filesystem,
    is_local,
    normalize,
)

Listed = dict[str, Any]
"""A number's list: its files with size and time of change (ms), their schema, a table's version."""

LIST_BYTES_MAX: Final = 2**30


class Checkpoint:
    """The lists of one job, which is known by `job`: its producer, topic and source."""

    def __init__(
        self, url: str, storage_option: Sequence[str] | None, job: Mapping[str, str]
    ) -> None:
        self._url, self._job = normalize(url), dict(job)
        self._options = StorageOptions(pairs(storage_option, "--storage-option"))
        self._files = RootFiles(self._url, self._options)
        if is_local(self._url):
            Path(self._url).mkdir(parents=True, exist_ok=True)

    def lists(self) -> list[Listed]:
        """Return all lists by number, each with its `place`; `is_done`: its records are appended.

        Raises:
            JobError: They are another job's, or one is missing.
        """
        found = filesystem(self._url, self._options).find(self._url)
        names = {path.rsplit("/", 1)[1] for path in found}
        lists = []
        for number in range(sum(name.endswith(".json") for name in names)):
            content = self._files.read(self._path(number, "json"), LIST_BYTES_MAX)
            if content is None:
                raise JobError(f"{self._path(number, 'json')} is missing: bring it back")
            listed = json.loads(content)
            for name, mine in self._job.items():
                if listed[name] != mine:
                    raise JobError(
                        f"the lists in {self._url} are of {name} {listed[name]}, and this run is of"
                        f" {mine}: give it a --checkpoint and an --id of its own"
                    )
            place = self._path(number, "json")
            lists.append(listed | {"place": place, "is_done": f"{number:08}.done" in names})
        return lists

    def add(self, listed: Listed) -> None:
        """Write a number's list.

        Raises:
            JobError: Another run has written the number's list meanwhile.
        """
        number = listed["number"]
        whole = {"run": uuid4().hex, **self._job, **listed}
        content = json.dumps(whole, indent=1).encode()
        if not self._files.write_if_absent(self._path(number, "json"), content):
            raise JobError(
                f"another run has just listed number {number} in {self._url}: run this again once"
                " that one has ended"
            )

    def mark_done(self, number: int) -> None:
        """Note that a number is appended: its files may change or go from now on."""
        self._files.write(self._path(number, "done"), b"{}\n")

    def _path(self, number: int, kind: str) -> str:
        return f"{self._url}/{number:08}.{kind}"

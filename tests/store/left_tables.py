"""The tables that tests leave behind, noted so that engines that are slow to start open them all
at the end of the run.

Each process of the run appends to a file of its own. Pytest keeps the folders of a run's tests
until the run is over.
"""

import hashlib
import os
import re
import time
from pathlib import Path

import pyarrow.parquet as pq

from kafka_on_spark.store.delta.delta_files import CHECKPOINT

WAIT_SECONDS = 900
"""How long tests are waited for that another process of the run still runs."""

_OWN = re.compile(rb'"(writeId|timestamp|createdTime|id|deletionTimestamp)":("[0-9a-f-]*"|\d+)')
"""What differs in two commits of the same content."""


class LeftTables:
    """What the tests of one run have left behind."""

    def __init__(self, tmp_path_factory):
        base = tmp_path_factory.getbasetemp()
        self.folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def note(self, test, uris):
        name = f"tables-{os.environ.get('PYTEST_XDIST_WORKER', 'all')}.txt"
        with open(self.folder / name, "a") as file:
            file.write("".join(f"{each}\n" for each in ("\t".join((test, *uris)),)))

    def wait_for(self, tests):
        end = time.monotonic() + WAIT_SECONDS
        while missing := set(tests) - self._noted().keys():
            assert time.monotonic() < end, f"{len(missing)} tests have not ended: {min(missing)}"
            time.sleep(0.5)
        noted = self._noted()
        return [uri for test in sorted(tests) for uri in noted[test]]

    def _noted(self):
        lines = [
            line.split("\t")
            for path in self.folder.glob("tables-*.txt")
            for line in path.read_text().split("\n")[:-1]
        ]
        return {test: uris for test, *uris in lines}


def distinct(uris):
    """Return one of each set of tables whose logs hold the same under other ids and times."""
    return list({_content(Path(uri, "_delta_log")): uri for uri in uris}.values())


def _content(log):
    digest = hashlib.blake2b()
    for path in sorted(log.iterdir()):
        if not path.name.endswith(".tmp"):
            digest.update(path.name.encode() + b"\0" + _content_of(path) + b"\0")
    return digest.digest()


def _content_of(path):
    if not path.is_file():
        return b""
    content = path.read_bytes()
    if path.name.endswith(CHECKPOINT) and content[-4:] == b"PAR1":
        rows = pq.read_table(path, columns=["add.path", "txn", "metaData.configuration"])
        return repr(rows.to_pylist()).encode()
    return re.sub(_OWN, b"", content)

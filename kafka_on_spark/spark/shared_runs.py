"""What the Python workers of one driver tell each other of a query's run: the epochs it has taken.

Spark gives a batch to any idle worker, so that two queries of a driver swap theirs, and a run that
has an epoch for each worker would fence itself. A file named by the run is in the folder that Spark
makes for the driver and removes with it. So only workers of this driver find it, and another run
of the same query, here or elsewhere, still takes an epoch of its own.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from kafka_on_spark.produce.idempotence import OwnRun

log = logging.getLogger(__name__)

LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""The variable in which Spark tells its Python workers the driver's folders, with commas between
them."""

_FOLDER: Final = "kafka_on_spark"


class SharedRuns:
    """The epochs of one run of a query, by producer id. One worker at a time writes them.

    A file that can't be read or written is warned of, and no error: one worker needs none.
    """

    def __init__(self, run: str) -> None:
        first, _, _ = os.environ.get(LOCAL_DIRS, "").partition(",")
        self._path = Path(first, _FOLDER, f"{run}.json") if first else None

    def load(self) -> dict[str, OwnRun]:
        """Return what workers of this run have stored; nothing, if none has yet."""
        if self._path is None:
            return {}
        try:
            stored = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("the epochs of a query's run can't be read: %s", error)
            return {}
        return {producer_id: OwnRun(**each) for producer_id, each in stored.items()}

    def store(self, runs: Mapping[str, OwnRun]) -> None:
        """Store `runs` for the workers that append later batches."""
        if self._path is None:
            return
        stored = {producer_id: asdict(each) for producer_id, each in runs.items()}
        written = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(exist_ok=True)
            written.write_text(json.dumps(stored))
            written.replace(self._path)
        except OSError as error:
            log.warning("the epochs of a query's run can't be stored: %s", error)

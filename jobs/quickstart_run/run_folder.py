"""The folder of one quickstart run: its plan, its paths, and the disks that are taken away.

With a root on an object store, the cluster lies there, and the rest still in the folder: Spark
would need its own client for the stream's checkpoint. The folder does not record how far a run has
come: the cluster does.
"""

import fcntl
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from jobs.quickstart_run.store_root import AWAY, StoreRoot

PLAN_FILE: Final = "quickstart.json"


class QuickstartError(Exception):
    """The run can't begin or continue; one sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a run, fixed for the life of its folder."""

    rows: int
    brokers: int
    partitions: int
    root: str | None = None
    voters: int = 1


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """The options that the command line gives; None where it gives none."""

    rows: int | None
    brokers: int | None
    partitions: int | None
    root: str | None = None
    voters: int | None = None


class RunFolder:
    """A folder that this process alone works in, until it closes it or ends."""

    def __init__(self, path: Path, plan: Plan, lock: int, *, is_continued: bool) -> None:
        self.path = path
        self.plan = plan
        self.is_continued = is_continued
        self._lock = lock

    @classmethod
    def take(cls, given: str | None, given_plan: GivenPlan, default: Plan) -> Self:
        """Return the folder to work in: `given`, new or with an earlier run, or a temporary one.

        Raises:
            QuickstartError: The folder holds something else, another run works in it, or its run
                has other options.
        """
        path = Path(given or tempfile.mkdtemp(prefix="quickstart-")).absolute()
        lock = _lock_folder(path)
        try:
            begun = _read_plan(path)
            plan = _begin(path, given_plan, default) if begun is None else begun
            _check_given(path, given_plan, plan)
        except QuickstartError:
            os.close(lock)
            raise
        return cls(path, plan, lock, is_continued=begun is not None)

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)

    @property
    def base(self) -> str:
        """The parent of the roots: a URL, or this folder."""
        return self.plan.root or str(self.path)

    @property
    def metadata_roots(self) -> tuple[str, ...]:
        """The cluster's metadata roots, a voter of the quorum each."""
        if self.plan.voters == 1:
            return (f"{self.base}/metadata",)
        return tuple(f"{self.base}/metadata-{each}" for each in range(1, self.plan.voters + 1))

    @property
    def cluster_url(self) -> str:
        """What opens the cluster: its metadata roots, with commas between."""
        return ",".join(self.metadata_roots)

    @property
    def lost_metadata_root(self) -> str | None:
        """The metadata root that was taken away, if one was."""
        if self.plan.voters == 1:
            return None
        return next((root for root in self.metadata_roots if self.is_away(root)), None)

    def broker_root(self, broker_id: int) -> str:
        """Return a broker's root."""
        return f"{self.base}/broker-{broker_id}"

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint of the stream."""
        return self.path / "stream" / "checkpoint"

    @property
    def seen(self) -> Path:
        """Records that the stream has seen, one folder a batch."""
        return self.path / "stream" / "seen"

    @property
    def picture(self) -> Path:
        """The picture of leaders and ISRs."""
        return self.path / "isr-history.png"

    @property
    def log(self) -> Path:
        """The package's log, with the details of a failure."""
        return self.path / "quickstart.log"

    def is_away(self, root: str) -> bool:
        """Return whether the disk of a root is away."""
        store = self._store(root)
        return Path(root + AWAY).exists() if store is None else store.is_away()

    def take_away(self, root: str) -> None:
        """Rename a root: to every process that is a lost disk."""
        store = self._store(root)
        if store is None:
            Path(root).rename(root + AWAY)
        else:
            store.take_away()

    def give_back(self, root: str) -> None:
        """Undo `take_away`."""
        store = self._store(root)
        if store is None:
            Path(root + AWAY).rename(root)
        else:
            store.give_back()

    def _store(self, root: str) -> StoreRoot | None:
        return None if self.plan.root is None else StoreRoot(root)


def _lock_folder(path: Path) -> int:
    """Make the folder and lock it; the lock ends with the process."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise QuickstartError(
            f"--dir {path} can't be used ({error.strerror}): name a folder that can be made"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise QuickstartError(
            f"another quickstart works in --dir {path}: wait for it, or name another folder"
        ) from None
    return lock


def _read_plan(path: Path) -> Plan | None:
    try:
        fields = json.loads((path / PLAN_FILE).read_text(encoding="utf-8"))
        return Plan(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise QuickstartError(
            f"{path / PLAN_FILE} is not a quickstart's: name a new or an empty folder with --dir"
        ) from None


def _begin(path: Path, given_plan: GivenPlan, default: Plan) -> Plan:
    if any(path.iterdir()):
        raise QuickstartError(f"--dir {path} holds something else: name a new or an empty folder")
    plan = _filled(given_plan, default)
    _write_plan(path, plan)
    return plan


def _write_plan(path: Path, plan: Plan) -> None:
    """Write the plan whole or not at all: this process may be killed meanwhile."""
    draft = path / f".{PLAN_FILE}"
    try:
        draft.write_text(json.dumps(asdict(plan)) + "\n", encoding="utf-8")
        draft.replace(path / PLAN_FILE)
    except OSError as error:
        raise QuickstartError(
            f"--dir {path} can't be written ({error.strerror}): name another folder"
        ) from None


def _filled(given_plan: GivenPlan, default: Plan) -> Plan:
    given = {name: value for name, value in asdict(given_plan).items() if value is not None}
    return Plan(**(asdict(default) | given))


def _check_given(path: Path, given_plan: GivenPlan, plan: Plan) -> None:
    begun = asdict(plan)
    for name, value in asdict(given_plan).items():
        if value not in (None, begun[name]):
            raise QuickstartError(
                f"the run in {path} was begun with --{name} {begun[name]}, not {value}: continue"
                " it without the option, or name another folder with --dir"
            )

"""What an audit reports: findings, and how far it could read each table.

A finding names an invariant by its id; docs/architecture.md lists them with what keeps and what
checks each. A finding without one says that something could not be checked.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kafka_on_spark.base.ids import BrokerId, TopicPartition

SAME_INVARIANT_MAX: Final = 20
"""Findings of one invariant in one place that are listed; a broken table has thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something was found. A field is None where it does not apply.

    Attributes:
        version: Of the replica's Delta table, or of the metadata log's.
        offset: Of a record in the partition's log.
        metadata_offset: Of a record in the metadata log.
    """

    partition: TopicPartition | None = None
    broker_id: BrokerId | None = None
    voter_id: int | None = None
    version: int | None = None
    offset: int | None = None
    metadata_offset: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        words = [
            "metadata log" if self.partition is None and self.broker_id is None else None,
            None if self.partition is None else str(self.partition),
            None if self.broker_id is None else f"broker {self.broker_id}",
            None if self.voter_id is None else f"voter {self.voter_id}",
            None if self.version is None else f"version {self.version}",
            None if self.offset is None else f"offset {self.offset}",
            None if self.metadata_offset is None else f"metadata offset {self.metadata_offset}",
        ]
        return ", ".join(word for word in words if word is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be. `invariant` is its id, such as "I5"; None: something could not be
    checked."""

    invariant: str | None
    place: Place
    sentence: str

    @property
    def severity(self) -> str:
        """ "violated", or "unchecked" where nothing is known."""
        return "unchecked" if self.invariant is None else "violated"

    def as_row(self) -> dict[str, Any]:
        """Return the finding as plain values, for scripts."""
        place = asdict(self.place)
        partition = place.pop("partition") or (None, None)
        return {
            "invariant": self.invariant,
            "severity": self.severity,
            "topic": partition[0],
            "partition": partition[1],
            **place,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How far one table was checked.

    Attributes:
        table: The replica, or the metadata log.
        first_version: If it is above 0, the commits before it are gone.
        read_files: Files whose bytes were read and checked.
    """

    table: Place
    first_version: int
    last_version: int
    read_files: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckReport:
    """What a check of all tables found: of the metadata log first, then by table.

    Attributes:
        is_deep: Segments were also read.
        not_checked: What was not looked at, each in words.
    """

    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    is_deep: bool
    not_checked: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether everything could be checked and nothing was found."""
        return not self.findings

    @property
    def invariants(self) -> frozenset[str]:
        """The ids of the invariants that are violated."""
        return frozenset(each.invariant for each in self.findings if each.invariant is not None)

    def as_dict(self) -> Mapping[str, Any]:
        """Return the report as plain values, for scripts."""
        return {
            "is_clean": self.is_clean,
            "is_deep": self.is_deep,
            "not_checked": list(self.not_checked),
            "findings": [each.as_row() for each in self.findings],
            "coverage": [{**asdict(each), "table": str(each.table)} for each in self.coverage],
        }


class FindingList:
    """Findings of one table or partition, with its place filled in."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._findings: list[Finding] = []
        self._counts: Counter[str | None] = Counter()

    def add(self, invariant: str | None, sentence: str, **where: Any) -> None:
        """Add a finding at `where` (fields of Place), or that there are more of an invariant."""
        self._counts[invariant] += 1
        more = self._counts[invariant] - SAME_INVARIANT_MAX
        if more == 1:
            sentence, where = "there are more findings like those before", {}
        if more <= 1:
            place = replace(self.place, **where) if where else self.place
            self._findings.append(Finding(invariant=invariant, place=place, sentence=sentence))

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._findings)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each finding once: those of the metadata log first, then by table."""

    def rank(finding: Finding) -> tuple[object, ...]:
        place = finding.place
        return (
            place.partition is not None,
            place.partition or ("", -1),
            -1 if place.broker_id is None else place.broker_id,
            -1 if place.voter_id is None else place.voter_id,
            finding.invariant is not None,
        )

    return tuple(sorted(dict.fromkeys(findings), key=rank))

"""What of the vectors does not apply to us, read from `not_applicable.toml`, with the reasons."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "not_applicable.toml"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something does not apply."""

    id: str
    why: str
    covered_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Applicability:
    """Reasons, and the rules that name them. An adapter names some itself, where it finds them.

    `counts` says how many answers of the vectors that are here each reason leaves out.
    """

    reasons: Mapping[str, Reason]
    kinds: Mapping[str, str]
    vectors: Mapping[str, str]
    ops: Mapping[tuple[str, str], str]
    fields: Mapping[tuple[str, str], str]
    counts: Mapping[str, int]

    def reason_for_vector(self, vector_id: str, kind: str) -> Reason | None:
        """Return why a whole vector does not apply, or None if it does."""
        name = self.vectors.get(vector_id) or self.kinds.get(kind)
        return None if name is None else self.reasons[name]

    def reason_for_op(self, kind: str, op: str) -> str | None:
        """Return why steps of an operation are left out, or None."""
        return self.ops.get((kind, op))

    def reason_for_field(self, kind: str, name: str) -> str | None:
        """Return why a field of answers is not compared, or None."""
        return self.fields.get((kind, name))

    def check_reason(self, name: str) -> None:
        assert name in self.reasons, f"{name} is not a reason of {FILE.name}"


def read_rules(file: Path = FILE) -> Applicability:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    reasons = {
        each["id"]: Reason(each["id"], each["why"], tuple(each.get("covered_by", ())))
        for each in given["reason"]
    }
    return Applicability(
        reasons=reasons,
        kinds={kind: each["reason"] for each in given["kinds"] for kind in each["kinds"]},
        vectors={each["id"]: each["reason"] for each in given.get("vector", ())},
        ops={(each["kind"], op): each["reason"] for each in given["ops"] for op in each["ops"]},
        fields={
            (each["kind"], name): each["reason"]
            for each in given["fields"]
            for name in each["fields"]
        },
        counts=given["counts"],
    )

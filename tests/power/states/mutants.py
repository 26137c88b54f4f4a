"""Flushes that our code could leave out, each with what a power cut then does.

A mutant is the record without one kind of flush: code that does not flush does all else alike.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """Code without one kind of flush.

    Attributes:
        what: Which flush is left out: of `kinds`.
        protects: What it keeps a power cut from.
    """

    what: str
    protects: str


AT_THE_BEGINNING: Final = (
    Mutant("an identity", "a root whose meta.properties is empty"),
    Mutant("the metadata root", "a cluster whose table or meta.properties is gone"),
    Mutant("a broker's root", "a disk that is not the one it was"),
    Mutant("a folder above a root", "a root that is gone"),
    Mutant("a topic's folder", "a replica that is gone"),
    Mutant("a replica's folder", "a table without a log"),
)
"""What makes a cluster, a table or a broker."""

IN_UPKEEP: Final = (
    Mutant("a segment", "a commit that names a file without its bytes"),
    Mutant("a replica's folder", "a commit that names a file that is gone"),
    Mutant("a replica's commit", "a log that ends below the high watermark, or can't be read"),
    Mutant("the folder of a replica's commits", "the same"),
    Mutant("metadata rows", "a cluster that can't be opened"),
    Mutant("the metadata table's folder", "a cluster that can't be opened"),
    Mutant("a metadata commit", "a cluster that can't be opened, or forgets a decision"),
    Mutant("the folder of metadata commits", "a decision, and so a record, that is forgotten"),
    Mutant("a metadata checkpoint", "deleted commits that no checkpoint replaces"),
    Mutant("the folder of metadata commits after a checkpoint", "the same"),
    Mutant("a replica's checkpoint", "deleted commits that no checkpoint replaces"),
    Mutant("the folder of a replica's commits after a checkpoint", "the same"),
)
"""What appends, decisions, checkpoints and the deletion of commits rest on."""

HARMLESS: Final = {
    "a hint at a checkpoint": "our code passes over one without bytes, and not every engine does",
    "a root's test": "its files are deleted when it is over, and nobody reads them",
}
"""Flushes that protect nothing that our code needs, with the reason why they are there."""

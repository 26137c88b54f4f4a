"""The README and the pages of docs/, as tests read them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pages() -> Mapping[str, str]:
    """Return all pages by their names: those of docs/, the README, how to contribute, and the rigs'."""
    names = [
        "README.md",
        "CONTRIBUTING.md",
        "tests/rigs/README.md",
        *(f"docs/{each.relative_to(DOCS)}" for each in DOCS.rglob("*.md")),
    ]
    return {name: page(name) for name in sorted(names)}


DOCS: Final = ROOT / "docs"


def blocks(name: str, language: str) -> list[str]:
    """Return a page's blocks of code in a language, also those in lists."""
    fenced = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page(name), re.M | re.S)
    return [re.sub(f"^{indent}", "", text, flags=re.M) for indent, text in fenced]

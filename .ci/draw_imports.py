"""Draw which parts of each folder import which others, from the code, as SVG.

    ./spark-submit.sh python .ci/draw_imports.py docs/images/imports.svg [kafka_on_spark]

The second argument may be the package of another checkout. A column is a folder. It lists what a
reader chooses among there: its wings (folders), else its modules. An arc to the right is one part
that imports another further down. An arc to the left would lead back up: a circle. Imports from one
folder to another are not drawn: they lead to lower floors only, which a linter holds.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDERS: Final = ("controller", "query", "service", "storage", "spark", "audit", "inspect", "cli")
ROW: Final = 16
WIDTH: Final = 250
NAMES: Final = 130

Arrows = Mapping[str, set[str]]


def arrows_in(package: Path, folder: str) -> tuple[dict[str, int], Arrows]:
    """Return a folder's parts, with how many modules each has, and which imports which."""
    sizes: dict[str, int] = defaultdict(int)
    arrows: dict[str, set[str]] = defaultdict(set)
    for file in sorted((package / folder).rglob("*.py")):
        if file.name == "__init__.py" or "discovery" in file.parts:
            continue
        part = file.relative_to(package / folder).with_suffix("").parts[0]
        sizes[part] += 1
        for module in _imports(file):
            words = module.split(".")
            if words[:2] == ["kafka_on_spark", folder] and len(words) > 2 and words[2] != part:
                arrows[part].add(words[2])
    return dict(sizes), {part: arrows[part] & set(sizes) for part in sizes}


def _imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports; of `from a import b`, both a and a.b."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def in_order(arrows: Arrows) -> list[str]:
    """Return parts, each above what it imports, as far as no circle is in the way."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(part: str) -> None:
        if part not in seen:
            seen.add(part)
            for other in sorted(arrows[part]):
                visit(other)
            order.append(part)

    for part in sorted(arrows):
        visit(part)
    return order[::-1]


def picture(package: Path) -> str:
    """Return the SVG."""
    columns, rows, at = [], 0, 0
    for folder in FOLDERS:
        if not (package / folder).is_dir():
            continue
        sizes, arrows = arrows_in(package, folder)
        columns.append(_column(folder, sizes, arrows, 20 + at * WIDTH))
        rows, at = max(rows, len(sizes)), at + 1
    width, height = 20 + at * WIDTH, 80 + rows * ROW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *columns,
            "</svg>\n",
        ]
    )


def _column(folder: str, sizes: Mapping[str, int], arrows: Arrows, left: int) -> str:
    places = {part: 70 + ROW * row for row, part in enumerate(in_order(arrows))}
    count = sum(map(len, arrows.values()))
    lines = [
        _text(left, 24, folder, 'font-size="15" font-weight="bold"'),
        _text(left, 42, f"{len(sizes)} parts, {count} arrows", 'fill="#555555"'),
    ]
    for part, y in places.items():
        count_of = f" ({sizes[part]})" if sizes[part] > 1 else ""
        lines.append(_text(left, y + 4, part + count_of, 'fill="#111111"'))
        lines += [_arc(left + NAMES, y, places[other]) for other in sorted(arrows[part])]
    return "\n".join(lines)


def _text(x: int, y: int, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def _arc(x: int, begin: int, end: int) -> str:
    # Far ones swing out further; one that leads up swings to the left, and is red.
    is_up = end < begin
    reach = min(100, 12 + abs(end - begin) // 5) * (-1 if is_up else 1)
    colour = "#c22d2d" if is_up else "#3b5bdb"
    return (
        f'<path d="M{x} {begin} C{x + reach} {begin} {x + reach} {end} {x} {end}" fill="none"'
        f' stroke="{colour}" stroke-opacity="0.6"/><circle cx="{x}" cy="{end}" r="2"'
        f' fill="{colour}"/>'
    )


if __name__ == "__main__":
    source = (
        Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "kafka_on_spark"
    )
    Path(sys.argv[1]).write_text(picture(source), encoding="utf-8")

"""Draw the folders of the package and which imports which, from the code, as SVG.

    ./spark-submit.sh python .ci/draw_imports.py docs/images/imports.svg [kafka_on_spark]

The second argument may be the package of another checkout. A row is a folder, in the order of the
import linter's layers, what its `__init__` says that it is, and how many files it has. An arc to
the right leads to a folder that it imports, the thicker the more of its files do. One to the left,
in red, leads back up, which the linter forbids.
"""

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).parents[1]
ROW: Final = 30
TOP: Final = 30
ARCS: Final = 900
WIDTH: Final = 1160


def layers() -> list[str]:
    """Return the folders, the highest first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    [found] = [each["layers"] for each in contracts if each["type"] == "layers"]
    return list(found)


def files_of(package: Path, folder: str) -> list[Path]:
    """Return the files of a folder, or the one of a module that stands as one."""
    module = package / f"{folder}.py"
    if module.is_file():
        return [module]
    return [
        each for each in sorted((package / folder).rglob("*.py")) if "discovery" not in each.parts
    ]


def subject_of(package: Path, folder: str) -> str:
    """Return the first line of what a folder, or a module, says of itself."""
    file = package / folder / "__init__.py"
    file = file if file.is_file() else package / f"{folder}.py"
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0].rstrip(".")


def imported(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports; of `from a import b`, both a and a.b."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def folders_of(file: Path) -> set[str]:
    """Return the folders that a file imports from."""
    words = (each.split(".") for each in imported(file))
    return {each[1] for each in words if each[0] == "kafka_on_spark" and len(each) > 1}


def picture(package: Path) -> str:
    """Return the SVG."""
    places = {folder: TOP + ROW * row for row, folder in enumerate(layers())}
    lines = []
    for folder, y in places.items():
        files = files_of(package, folder)
        lines.append(_text(20, y, folder, 'font-size="15" font-weight="bold"'))
        lines.append(_text(190, y, subject_of(package, folder), 'fill="#333333"'))
        lines.append(
            _text(125, y, f"{len(files)} file{'s' if len(files) > 1 else ''}", 'fill="#777777"')
        )
        counts = Counter(other for file in files for other in folders_of(file))
        lines += [
            _arc(y - 4, places[other] - 4, counts[other])
            for other in places
            if other != folder and counts[other]
        ]
    height = TOP + ROW * len(places)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *lines,
            "</svg>\n",
        ]
    )


def _text(x: int, y: int, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def _arc(begin: int, end: int, count: int) -> str:
    # Far ones swing out further; one that leads up swings to the left, and is red.
    is_up = end < begin
    reach = (20 + abs(end - begin) * 2 // 3) * (-1 if is_up else 1)
    colour = "#c22d2d" if is_up else "#3b5bdb"
    return (
        f'<path d="M{ARCS} {begin} C{ARCS + reach} {begin} {ARCS + reach} {end} {ARCS} {end}"'
        f' fill="none" stroke="{colour}" stroke-opacity="0.5"'
        f' stroke-width="{min(1 + count / 10, 4):g}"/>'
        f'<circle cx="{ARCS}" cy="{end}" r="3" fill="{colour}"/>'
    )


if __name__ == "__main__":
    source = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "kafka_on_spark"
    Path(sys.argv[1]).write_text(picture(source), encoding="utf-8")

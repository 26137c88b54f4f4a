"""Print the functions, classes and methods of the product that only tests name; exit 1 if any.

A name counts as called where code that runs says it: at the top of a module, in `jobs`, in a public
method, or in something that is called itself; a rig is a test. Names are compared as words, so a
method is taken as called where any attribute of its name is: what is found is dead, and not all
that is dead is found.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "kafka_on_spark"

# Called by others than the project: a class stands for its public methods, too. A name is only
# listed with who calls it, and never because it is to be called later.
ALLOWED = {
    "users": [
        # docs/api.md, and what its calls return
        "Cluster", "Consumer", "FsckReport", "Metric", "SentRecord",
        # docs/look-into-it.md and the notebooks
        "broker_timeline", "grid_picture", "isr_history", "leader_timeline",
    ],
    "notebooks": ["_repr_png_"],
    "Spark": [
        "LagListener", "abort", "getDefaultReadLimit", "initialOffset",
        "prepareForTriggerAvailableNow", "reportLatestOffset", "streamReader", "streamWriter",
    ],
    "click": ["CommandLine.get_command", "CommandLine.invoke"],
    "aiobotocore": ["_Session._get_session"],
    "adlfs": ["AzureFiles._info", "AzureFiles._ls", "AzureFiles.do_connect"],
    "gcsfs": ["GoogleFiles._find", "GoogleFiles._info"],
    "s3fs": ["S3Files._call_s3", "S3Files._info", "S3Files._ls", "S3Files.set_session"],
    "Python: imports, logging": ["TextFormatter.formatMessage", "_WithoutPandas.find_spec"],
    "uvicorn": ["HttpServer.capture_signals", "HttpServer.main_loop"],
}  # fmt: skip

ADVICE = (
    "Nothing that runs names these. Delete each, with the tests that only it has; if a library or a"
    " user calls it, list it in ALLOWED of .ci/uncalled.py under who does."
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Named:
    """A definition, and the words that its own body says, without those of what it defines."""

    place: str
    name: str
    owner: "Named | None"
    words: set[str] = field(default_factory=set)
    is_class: bool = False
    is_alive: bool = False

    @property
    def full_name(self) -> str:
        """Its name, with its class."""
        return self.name if self.owner is None else f"{self.owner.name}.{self.name}"


def definitions(tree: ast.AST, file: Path) -> tuple[list[Named], set[str]]:
    """Return what a module defines, and the words at its top."""
    found: list[Named] = []
    top: set[str] = set()

    def walk(node: ast.AST, owner: Named | None, words: set[str]) -> None:
        if isinstance(node, Definition):
            is_method = owner is not None and owner.is_class
            if owner is None or is_method:
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                inner = Named(place, node.name, owner, is_class=isinstance(node, ast.ClassDef))
                found.append(inner)
                for each in node.decorator_list:
                    walk(each, owner, inner.words)
                outside = {id(each) for each in node.decorator_list}
                for each in ast.iter_child_nodes(node):
                    if id(each) not in outside:
                        walk(each, inner, inner.words)
                return
        words |= set(words_of(node))
        for each in ast.iter_child_nodes(node):
            walk(each, owner, words)

    walk(tree, None, top)
    return found, top


def words_of(node: ast.AST) -> Iterator[str]:
    """Yield the words that a node says. To import a name is not to call it."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.attr
    elif isinstance(node, ast.MatchClass):
        yield from node.kwd_attrs
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        # "cluster.leaders", "topics configs": the command line's verbs, and attributes of rows.
        names = re.split("[.:= ]", node.value.replace("-", "_"))
        yield from names if all(map(str.isidentifier, names)) else ()


def main() -> int:
    found: list[Named] = []
    words: set[str] = set()
    for file in sorted(PRODUCT.rglob("*.py")):
        inner, top = definitions(ast.parse(file.read_text(encoding="utf-8")), file)
        found += inner
        words |= top
    for file in sorted((ROOT / "jobs").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            words |= set(words_of(node))
    allowed = {name for names in ALLOWED.values() for name in names}
    dead = uncalled(found, words, allowed)
    said = [f"{each.place}: {each.full_name}" for each in dead]
    if dead:
        said.append(ADVICE)
    idle = sorted(allowed - {name for each in found for name in (each.name, each.full_name)})
    if idle:
        said.append(f"ALLOWED names nothing with {', '.join(idle)}: take it off.")
    sys.stdout.writelines(f"{line}\n" for line in said)
    return 1 if said else 0


def uncalled(found: list[Named], words: set[str], allowed: set[str]) -> list[Named]:
    """Return what neither `words` nor the bodies of what is called name. What belongs to a class
    that is not called goes without saying."""

    def is_called(each: Named) -> bool:
        if each.owner is not None and not each.owner.is_alive:
            return False
        if each.name in words or not {each.name, each.full_name}.isdisjoint(allowed):
            return True
        if each.name.startswith("__") and each.name.endswith("__"):
            return True  # by Python
        return each.owner is not None and each.owner.name in allowed and each.name[0] != "_"

    left, count = found, len(found) + 1
    while len(left) < count:
        count = len(left)
        for each in left:
            each.is_alive = is_called(each)
            if each.is_alive:
                words |= each.words
        left = [each for each in left if not each.is_alive]
    return [each for each in left if each.owner is None or each.owner.is_alive]


if __name__ == "__main__":
    sys.exit(main())

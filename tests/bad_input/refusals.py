"""What every refusal must be: one sentence with its words, and nothing written. So these cases are
refused before tasks stage files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

from kafka_on_spark import Cluster


def written(base: Path) -> dict[str, int]:
    """Return the files of a cluster, without checkpoints, which come after an answer."""
    return {
        str(path.relative_to(base)): path.stat().st_size
        for path in base.rglob("*")
        if path.is_file() and "checkpoint" not in path.name and path.parent.name != "snapshots"
    }


@contextmanager
def refused(
    cluster: Cluster, base: Path, error: type[Exception] | tuple[type[Exception], ...], *words: str
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Check that what is done inside is refused in a sentence that has `words`; give the error."""
    cluster._node.maintenance.finish()  # which merges files of what was committed before
    offset, before = cluster.image.offset, written(base)
    with pytest.raises(error) as caught:
        yield caught
    check_sentence(str(caught.value), *words)
    assert cluster.image.offset == offset
    assert written(base) == before


def check_sentence(text: str, *words: str) -> None:
    """Check that `text` is one line, has no stack, and names `words`."""
    assert "\n" not in text.strip()
    for trace in ("Traceback", "py4j", "An error occurred while calling"):
        assert trace not in text
    for word in words:
        assert word in text, (word, text)


def anything(method: Callable[..., Any]) -> tuple[list[object], dict[str, object]]:
    """Return arguments for a method which are of no use: it must not come to look at them."""
    given = list(signature(method).parameters.values())[1:]
    required = [each for each in given if each.default is Parameter.empty]
    positional = [object() for each in required if each.kind is not Parameter.KEYWORD_ONLY]
    named = {each.name: object() for each in required if each.kind is Parameter.KEYWORD_ONLY}
    return positional, named

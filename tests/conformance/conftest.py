"""One test a vector, from the repository's folder or from another."""

from pathlib import Path

import pytest

from tests.conformance.running import VECTORS, VectorError, load_vectors


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vectors", metavar="DIR", default=str(VECTORS), help="a folder of conformance vectors"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vector" not in metafunc.fixturenames:
        return
    folder = Path(metafunc.config.getoption("--vectors", str(VECTORS)))
    try:
        vectors = load_vectors(folder)
    except VectorError as error:
        raise pytest.UsageError(str(error)) from error
    metafunc.parametrize("vector", vectors, ids=[each["id"] for each in vectors])

"""`pytest tests/conformance [--vectors DIR]`: one test a vector, and a table of what was run."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.conformance.loading import BrokenVectorsError, load_vectors

OURS = Path(__file__).parent / "vectors"


def pytest_addoption(parser):
    parser.addoption("--vectors", help="another folder of conformance vectors to run")


def pytest_configure(config):
    """Check the folder before anything runs: what is wrong with it is one sentence, not a trace."""
    if config.getoption("--vectors", default=None) is None or hasattr(config, "workerinput"):
        return
    try:
        load_vectors(folder_of(config))
    except BrokenVectorsError as error:
        raise pytest.UsageError(str(error)) from error


def folder_of(config):
    folder = config.getoption("--vectors", default=None)
    return OURS if folder is None else Path(folder)


def pytest_generate_tests(metafunc):
    if "vector" not in metafunc.fixturenames:
        return
    vectors = load_vectors(folder_of(metafunc.config))
    metafunc.parametrize("vector", vectors, ids=[vector.id for vector in vectors])


def pytest_terminal_summary(terminalreporter):
    rows = defaultdict(Counter)
    reasons = defaultdict(Counter)
    for report in (each for stats in terminalreporter.stats.values() for each in stats):
        about = dict(getattr(report, "user_properties", ()) or ())
        if "conformance" not in about or getattr(report, "when", None) != "call":
            continue
        file, kind, left_out = about["conformance"]
        outcome = report.outcome
        if outcome == "passed":
            outcome = "in part" if left_out else "wholly"
        rows[file, kind][outcome] += 1
        reasons[file, kind].update(left_out)
    if not rows:
        return
    terminalreporter.write_sep("-", "conformance vectors")
    columns = ("wholly", "in part", "skipped", "failed")
    terminalreporter.write_line(f"{'file':38} {'kind':26}" + "".join(f"{c:>9}" for c in columns))
    for file, kind in sorted(rows):
        counts = "".join(f"{rows[file, kind][column]:9}" for column in columns)
        terminalreporter.write_line(f"{file:38} {kind:26}{counts}")
        for reason, count in sorted(reasons[file, kind].items()):
            terminalreporter.write_line(f"{'':40}left out {count:5} × {reason}")
    total = sum(rows.values(), Counter())
    counts = "".join(f"{total[column]:9}" for column in columns)
    terminalreporter.write_line(f"{'all':38} {'':26}{counts}")

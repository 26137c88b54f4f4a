"""Options of the jobs: one sentence says what is wrong, and nothing begins."""

import pytest

from jobs import append, benchmark, controller, quickstart, replicate
from tests.rigs import torture

APPEND = ["in", "--cluster", "c", "--topic", "t", "--id", "i", "--checkpoint", "p"]

# fmt: off
CASES = [
    pytest.param(append,     ["in", "--topic", "t"], 2, ["--cluster", "--id", "--checkpoint"],                  id="append: no cluster"),
    pytest.param(append,     [*APPEND, "--option", "x"], 2, ["'x' is not allowed", "give NAME=VALUE"],          id="append: an option without a value"),
    pytest.param(append,     [*APPEND, "--storage-option", "=y"], 2, ["'=y' is not allowed", "give NAME=VALUE"], id="append: an option without a name"),
    pytest.param(append,     [*APPEND, "--producer-epoch", "a"], 2, ["--producer-epoch", "'a'"],                id="append: a word for an epoch"),
    pytest.param(controller, ["--cluster", "c", "--for", "soon"], 2, ["'soon' is not allowed", "seconds"],      id="controller: a word for seconds"),
    pytest.param(controller, ["--cluster", "c", "--for", "9", "--once"], 2, ["--once", "--for"],                id="controller: once and for a time"),
    pytest.param(replicate,  ["--cluster", "c", "--interval", "0"], 2, ["'0' is not allowed", "seconds"],       id="replicate: no interval"),
    pytest.param(benchmark,  ["--runs", "x"],        2, ["'x' is not a count", "give 1 or more"],               id="benchmark: a word for a count"),
    pytest.param(benchmark,  ["--records", "0"],     2, ["'0' is not a count", "give 1 or more"],               id="benchmark: no record"),
    pytest.param(benchmark,  ["--only", "smal"],     2, ["--only", "'smal'", "small", "failover"],              id="benchmark: an unknown name"),
    pytest.param(benchmark,  ["--fast"],             2, ["unrecognized arguments: --fast"],                     id="benchmark: an unknown option"),
    pytest.param(benchmark,  ["--dir", "/proc/new"], 2, ["'/proc/new' can't be used", "give a folder"],         id="benchmark: a folder that can't be made"),
    pytest.param(quickstart, ["--rows", "1"],        1, ["'1' is not allowed", "give a whole number from 2"],   id="quickstart: too few rows"),
    pytest.param(quickstart, ["--row"],              1, ["--rows", "expected one argument"],                    id="quickstart: no number"),
    pytest.param(torture,    ["--minutes", "soon"],  2, ["'soon' is not allowed", "0.1 to 1440 minutes"],       id="torture: a word for minutes"),
]
# fmt: on


@pytest.mark.parametrize("job, arguments, code, words", CASES)
def test_a_bad_option_is_said_in_one_line(capsys, monkeypatch, job, arguments, code, words):
    monkeypatch.delenv("KAFKA_ON_SPARK_CLUSTER", raising=False)
    with pytest.raises(SystemExit) as caught:
        job.parse(arguments)

    said = capsys.readouterr()
    assert caught.value.code == code
    assert said.out == ""
    assert said.err.startswith("./spark-submit.sh ")
    assert said.err.count("\n") == 1
    assert said.err.endswith("; --help lists the options\n")
    for word in words:
        assert word in said.err

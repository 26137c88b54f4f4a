"""Executors are checked before a task runs, and collect garbage less often."""

import pickle
import sys
from types import ModuleType

import pytest
from pyspark import cloudpickle

from kafka_on_spark.base import __version__
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.spark.executors import (
    ADVICE,
    ExecutorTask,
    SentToExecutors,
    clear_errors,
)
from kafka_on_spark.spark.versions import is_local


class Reader(SentToExecutors):
    """Something that Spark pickles."""

    def __init__(self, options):
        self.options = options


def test_a_task_arrives_as_it_was():
    task = pickle.loads(cloudpickle.dumps(ExecutorTask(len)))

    assert task([1, 2]) == 2


def test_an_object_arrives_as_it_was():
    reader = pickle.loads(cloudpickle.dumps(Reader({"cluster": "there"})))

    assert type(reader) is Reader
    assert reader.options == {"cluster": "there"}


def _version(monkeypatch, name, version):
    module = ModuleType(name)
    module.__version__ = version
    monkeypatch.setitem(sys.modules, name, module)


# fmt: off
LACKING = [
    pytest.param({"pyarrow": None},                            "has no pyarrow",                    id="a package"),
    pytest.param({"pyarrow": "1.0"},                           "has pyarrow 1.0, and the driver ",  id="another version"),
    pytest.param({"kafka_on_spark": "0.0.9", "pyarrow": "1.0"},
                 f"has kafka_on_spark 0.0.9, and the driver {__version__} and has pyarrow 1.0",     id="two"),
]
# fmt: on


@pytest.mark.parametrize("there, said", LACKING)
def test_nothing_is_unpickled_where_something_lacks(monkeypatch, there, said):
    sent = cloudpickle.dumps(ExecutorTask(len))
    for name, version in there.items():
        if version is None:
            monkeypatch.setitem(sys.modules, name, None)
        else:
            _version(monkeypatch, name, version)

    with pytest.raises(ImportError, match=r"^the executor on \S+ can't run tasks") as refused:
        pickle.loads(sent)

    assert said in str(refused.value)
    assert str(refused.value).endswith(ADVICE)


# fmt: off
TRACES = [
    pytest.param("Traceback\nImportError: the executor on h1 can't run tasks of x, because y\n\tat org",
                 "the executor on h1 can't run tasks of x, because y",                               id="our own"),
    pytest.param('java.io.IOException: Cannot run program "./environment/bin/python": error=2',
                 "executors can't be used, because of their Python"
                 ' (Cannot run program "./environment/bin/python"): ' + ADVICE,                      id="no such Python"),
    pytest.param("python3: Error while finding module specification for 'pyspark.daemon' (ModuleNotFoundError)",
                 "executors can't be used, because of their Python"
                 " (finding module specification for 'pyspark): " + ADVICE,                          id="no pyspark"),
    pytest.param("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
                 "executors can't be used, because of their Python"
                 " (Python in worker has different version: 3.9 than that in driver: 3.11): " + ADVICE,
                                                                                                     id="another Python"),
]
# fmt: on


@pytest.mark.parametrize("trace, sentence", TRACES)
def test_a_trace_of_a_python_that_runs_no_task_is_one_sentence(trace, sentence):
    with pytest.raises(InvalidRequestError) as refused, clear_errors():
        raise ValueError(trace)

    assert refused.value.message == sentence


def test_what_fails_otherwise_is_raised_as_it_is():
    error = ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing") as raised, clear_errors():
        raise error

    assert raised.value is error


@pytest.mark.parametrize(
    "master, expected",
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://127.0.0.1:7077", False),
        ("yarn", False),
        (None, False),
    ],
)
def test_only_threads_of_the_driver_are_not_asked(master, expected):
    assert is_local(master) is expected

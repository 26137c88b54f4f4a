"""What a put on HDFS leaves and raises, whichever of its steps fails."""

import sys
from types import SimpleNamespace

import pytest

DENIED = RuntimeError("SASL error: GSSAPI: no ticket")
STEPS = ["create", "write", "hsync", "close", "set_times", "rename"]

# fmt: off
FAILURES = [
    pytest.param("create",    FileExistsError("AlreadyBeingCreated"), OSError,         id="create, asked again"),
    pytest.param("create",    DENIED,                                 PermissionError, id="no ticket"),
    pytest.param("hsync",     OSError("no data node"),                OSError,         id="no data node"),
    pytest.param("set_times", RuntimeError("Access time is not on"),  RuntimeError,    id="no access times"),
    pytest.param("rename",    FileExistsError("there is one"),        FileExistsError, id="a lost race"),
]
# fmt: on


@pytest.mark.parametrize("failing, raised, kind", FAILURES)
def test_put_that_fails_leaves_no_temporary_file_and_only_a_lost_race_says_so(
    monkeypatch, failing, raised, kind
):
    done = []

    class Client:
        def __init__(self, *_):
            pass

        def __getattr__(self, name):
            def do(*_):
                done.append(name)
                if name == failing:
                    raise raised
                return self

            return do

    library = SimpleNamespace(Client=Client, WriteOptions=lambda **_: None)
    monkeypatch.setitem(sys.modules, "hdfs_native", library)
    monkeypatch.delitem(sys.modules, "kafka_on_spark.store.hdfs_files", raising=False)
    from kafka_on_spark.store.hdfs_files import HdfsFiles

    with pytest.raises(kind) as caught:
        HdfsFiles(host="h").pipe_file("hdfs://h/a", b"x", "create")
    del sys.modules["kafka_on_spark.store.hdfs_files"]  # it has the library that is none

    assert type(caught.value) is kind
    assert done == [*STEPS[: STEPS.index(failing) + 1], "delete"]

"""Tables on a disk and on a store, with checkpoints often and few commits kept."""

from itertools import count

import pytest

from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.roots import StorageOptions
from tests.store.delta.cleaning import shorten
from tests.store.places import COMMITS, INTERVAL, KEPT, Place, contents_of, put_into
from tests.store.s3.faulty_s3 import BUCKET, faulty_s3
from tests.store.tables import commit, create, live

NUMBERS = count()


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture(params=["disk", "S3"])
def place(request, tmp_path, store):
    if request.param == "disk":
        (tmp_path / "root").mkdir()
        yield Place(str(tmp_path / "root" / "table"), StorageOptions(), None)
        return
    options = StorageOptions(store.options())
    place = Place(f"s3://{BUCKET}/broker/{next(NUMBERS)}", options, store)
    yield place
    store.recover()
    if contents := contents_of(place):  # where all engines open it
        copy = tmp_path / "copy" / "_delta_log"
        copy.mkdir(parents=True)
        for name, content in contents.items():
            (copy / name).write_bytes(content)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Have checkpoints often, keep few commits, and give up soon."""
    shorten(monkeypatch, interval=INTERVAL, kept=KEPT)
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS", 0.3)
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS_LOCAL", 0.05)


@pytest.fixture
def log(place):
    """Return an open table at version 1."""
    create(place.uri, place.options)
    log = place.opened()
    commit(log, 0)
    return log


@pytest.fixture
def rival(log, place):
    return place.opened()


def _lived(folder, kept):
    """Return the files of a table's log at version 10, by name. They are made once, on a disk: on a
    store each of these commits takes a tenth of a second."""
    (folder / "root").mkdir()
    place = Place(str(folder / "root" / "table"), StorageOptions(), None)
    with pytest.MonkeyPatch.context() as patched:
        shorten(patched, interval=INTERVAL, kept=kept)
        log = create(place.uri)
        live(log, COMMITS + 1)
    return contents_of(place)


@pytest.fixture(scope="module")
def cleaned_once(tmp_path_factory):
    return _lived(tmp_path_factory.mktemp("cleaned"), KEPT)


@pytest.fixture(scope="module")
def uncleaned_once(tmp_path_factory):
    return _lived(tmp_path_factory.mktemp("uncleaned"), 10**6)


@pytest.fixture
def cleaned(place, cleaned_once):
    """Return a table at version 10: commits from 6 on, checkpoints at 6, 8 and 10."""
    put_into(place, cleaned_once)
    return place.opened()


@pytest.fixture
def uncleaned(place, uncleaned_once):
    """Return a table of which much can be cleaned, and was not."""
    put_into(place, uncleaned_once)
    return place.opened()

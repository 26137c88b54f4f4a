"""Local folders that change while they are listed: a listing may lack a file and have the next."""

import pytest

from kafka_on_spark.storage.delta.log_cleaning import clean_log
from kafka_on_spark.storage.roots.roots import RootFiles
from tests.storage.tables import (
    OPTIONS,
    commit_file,
    damages_of,
    live,
    opened,
    write_ids_by_version,
)

pytestmark = pytest.mark.usefixtures("short")

COMMITS = 64
SEEN = 1


@pytest.fixture
def rival(log, uri):
    return opened(uri)


@pytest.fixture
def torn(monkeypatch):
    """Return a function that has the next listing lack a file which stood there."""

    def have_next_listing_lack(path):
        names, lacked = RootFiles.names, []

        def list_without(files, folder):
            found = names(files, folder)
            if not lacked and path.name in found:
                lacked.append(path)
                found.remove(path.name)
            return found

        monkeypatch.setattr(RootFiles, "names", list_without)
        return lacked

    return have_next_listing_lack


def test_a_process_that_lists_a_log_that_grows_calls_it_whole(log, uri, rival, torn):
    live(rival, 5)
    lacked = torn(commit_file(uri, 5))

    assert opened(uri).version == rival.version == 6
    assert lacked


def test_an_audit_that_lists_a_log_that_grows_calls_it_whole(log, uri, rival, torn):
    live(rival, 5)
    lacked = torn(commit_file(uri, 5))

    assert damages_of(uri) == []
    assert lacked


def test_a_cleaner_that_slept_in_its_listing_deletes_no_commit_before_an_older_one(
    log, uri, rival, monkeypatch, torn
):
    """Else a follower that knows the older one would take it for the newest."""
    with monkeypatch.context() as kept:
        kept.setattr("kafka_on_spark.storage.delta.log_cleaning.COMMITS_KEPT", 10**6)
        live(rival, COMMITS)
    lacked = torn(commit_file(uri, SEEN))

    assert clean_log(RootFiles(uri, OPTIONS), uri) == SEEN
    assert lacked
    assert min(write_ids_by_version(uri)) == SEEN
    assert log.refresh() == rival.version
    assert clean_log(RootFiles(uri, OPTIONS), uri) > SEEN
    assert opened(uri).counters() == {"count": rival.version}
    assert damages_of(uri) == []

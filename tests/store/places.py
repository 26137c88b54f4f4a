"""Places of the tables of the contract suite, a disk and a store, and how long their logs get."""

from pathlib import Path

import pytest

from kafka_on_spark.store.delta.delta_files import checkpoints_in, commits_in, log_folder
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.roots import RootFiles
from tests.store.tables import damages_of, opened, put_stray

INTERVAL = 2
KEPT = 2
COMMITS = 9
SEEN = 1
"""The version at which processes fall asleep."""

LONG = pytest.mark.long
"""Cases beyond the first of each rule: each takes a second or two on a store."""


def first(*cases):
    """Return the cases of a parameter: one for each run, and the others for long runs."""
    return [cases[0], *(pytest.param(each, marks=LONG) for each in cases[1:])]


class Place:
    """A table's place."""

    def __init__(self, uri, options, store):
        self.uri = uri
        self.options = options
        self.files = RootFiles(uri, options)
        self.store = store

    def opened(self):
        return opened(self.uri, self.options)

    def names(self):
        return self.files.names(log_folder(self.uri))

    def commits(self):
        return sorted(commits_in(self.names()))

    def checkpoints(self):
        return sorted(checkpoints_in(self.names()))

    def stray(self, version):
        put_stray(self.uri, version, self.options)

    def clean(self):
        return clean_log(self.files, self.uri)

    def change(self, path, damage):
        """Put what a damage makes of a file in its place; nothing, if that is None."""
        content = damage(self.files.read(path, 10**9))
        self.files.delete(path)
        if content is not None:
            self.files.write(path, content)

    def check_whole(self, version):
        """Check that a table opens at a version, and that an audit finds nothing."""
        log = self.opened()
        assert (log.version, log.counters()) == (version, {"count": version})
        assert damages_of(self.uri, self.options) == []


def contents_of(place):
    """Return the files of a table's log by name; a store is not asked over its connections, which
    takes a hundred times as long."""
    folder = log_folder(place.uri)
    if place.store is not None:
        return place.store.objects(folder)
    return {name: Path(folder, name).read_bytes() for name in place.names()}


def put_into(place, contents):
    """Put the files of a table's log."""
    folder = log_folder(place.uri)
    if place.store is not None:
        place.store.put_objects(folder, contents)
        return
    Path(folder).mkdir(parents=True)
    for name, content in contents.items():
        Path(folder, name).write_bytes(content)

"""Tables whose logs are cleaned: what is left of them, and whether they are whole."""

from deltalake import DeltaTable

from kafka_on_spark.storage.delta.files.delta_files import checkpoint_version, commit_version
from kafka_on_spark.storage.delta.log_cleaning import clean_log
from kafka_on_spark.storage.roots.roots import RootFiles
from tests.storage.tables import OPTIONS, damages_of, names_in_log, opened

COMMITS = 64


def commits_of(uri):
    return [each for each in map(commit_version, names_in_log(uri)) if each is not None]


def checkpoints_of(uri):
    return [each for each in map(checkpoint_version, names_in_log(uri)) if each is not None]


def clean(uri):
    return clean_log(RootFiles(uri, OPTIONS), uri)


def check_whole(uri, version):
    """Check that a table opens at `version` and that an audit finds nothing, as delta-rs."""
    log = opened(uri)
    assert (log.version, log.counters()) == (version, {"count": version})
    assert DeltaTable(uri).version() == version
    assert damages_of(uri) == []

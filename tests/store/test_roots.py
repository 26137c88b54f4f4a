"""Roots: their names, their identity, what is refused about them, and the secrets they need."""

import errno
import logging
import os
import pickle
import traceback
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.store import roots
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.root_identity import (
    META_PROPERTIES,
    RootIdentity,
    check_directory,
    probe_root,
    read_identity,
)
from kafka_on_spark.store.root_urls import cluster_url, is_one_place
from kafka_on_spark.store.roots import RootFiles, StorageOptions, normalize
from tests.store.tables import OPTIONS, commit, create, opened

CANARY = "canary-Tr8mPq3nZd"
SECRETS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": CANARY, "AWS_REGION": "us-east-1"}


def prepare(root, cluster_id="a-cluster", broker_id=1):
    return prepare_root(str(root), cluster_id, BrokerId(broker_id), OPTIONS)


def test_a_tilde_is_a_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")

    assert normalize("~") == "/home/me"
    assert normalize("~/a") == normalize(Path("~/a")) == "/home/me/a"
    assert normalize("~root/a") == os.path.expanduser("~root/a")
    assert normalize("/data/~a") == "/data/~a"
    with pytest.raises(InvalidRootError, match="no home folder is known for ~nobody-of-this-name"):
        normalize("~nobody-of-this-name/a")


# fmt: off
@pytest.mark.parametrize("given, stored", [
    ("/data/a",                 "/data/a"),
    ("/data/a/",                "/data/a"),
    ("/data/./b/../a",          "/data/a"),
    (Path("/data/a"),           "/data/a"),
    ("file:///data/a",          "/data/a"),
    ("file:/data/a/",           "/data/a"),
    ("file:///data/a%20b",      "/data/a b"),
    ("s3://bucket/a/",          "s3://bucket/a"),
    ("s3a://bucket",            "s3a://bucket"),
    ("gs://bucket/a",           "gs://bucket/a"),
    ("abfss://box@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a"),
])
def test_root_is_stored_in_one_form(given, stored):
    assert normalize(given) == stored
    assert normalize(stored) == stored




@pytest.mark.parametrize("given", [
    "", "/", "memory://a", "ftp://a/b", "http://a/b", "s3:/bucket", "s3://", "data:a", "/a%20b",
    "s3://user:password@bucket/a", "s3://bucket/a?sig=password", "s3://bucket/a#password",
    "s3:user:password@bucket/a", "s3://[bucket",
])
def test_what_can_not_be_a_root_is_refused_in_one_sentence(given):
    with pytest.raises(InvalidRootError) as refusal:
        normalize(given)

    assert "\n" not in refusal.value.message
    assert "password" not in refusal.value.message


@pytest.mark.parametrize("given", [
    "localhost:9092", "127.0.0.1:9092", "[::1]:9092", "PLAINTEXT://kafka-1:9092", "SASL_SSL://b.c:9093/",
])
def test_where_a_bootstrap_server_is_given_a_metadata_root_is_asked_for(given):
    sentence = "is not a root, but a server's address, .* in place of bootstrap servers give its metadata"
    for url in (given, f"{given},other:9092"):
        with pytest.raises(InvalidRootError, match=sentence):
            cluster_url(url)


@pytest.mark.parametrize("given", [
    "/data/a,b/metadata", "s3://bucket/a,b", "~/a,b", "/a, b", "/a,./b,c", "s3://user:pass,password@bucket/a",
])
def test_a_comma_in_the_name_of_a_metadata_root_makes_no_second_root(given):
    with pytest.raises(InvalidRootError, match="commas stand between them") as refusal:
        cluster_url(given)

    assert "password" not in refusal.value.message


def test_a_list_of_metadata_roots_may_have_blanks_in_and_around_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert cluster_url("/a b/m, s3://bucket/m ,./c") == f"/a b/m,s3://bucket/m,{tmp_path}/c"
    assert cluster_url("a,b/m") == f"{tmp_path}/a,{tmp_path}/b/m"


# fmt: off
@pytest.mark.parametrize("root, other, is_one", [
    ("/real/m",          "/real/m",          True),
    ("/link/m",          "/real/m",          True),   # a parent that is a link
    ("/real/link-to-m",  "/link/m",          True),
    ("/real/../real/m/", "file:///real/m",   True),
    ("/real/m",          "/real/n",          False),
    ("/real/m",          "/copy/m",          False),  # the same files, in another folder
    ("/real/m",          "/gone/m",          False),
    ("/gone/m",          "/gone/m",          True),   # as another host may see it
    ("/gone/m",          "/gone/link/../m",  True),
    ("s3://b/m",         "s3a://b/m/",       True),
    ("abfss://c@a/m",    "abfs://c@a/m",     True),
    ("s3://b/m",         "s3://b/m2",        False),
    ("s3://b/m",         "s3://b2/m",        False),
    ("s3://b",           "s3://b/m",         False),
    ("s3://b/m",         "gs://b/m",         False),
    ("s3://b/m",         "/b/m",             False),
])
def test_a_place_is_a_normalized_url_or_one_folder_of_this_host(tmp_path, root, other, is_one):
    for name in ("real/m", "real/n", "copy/m"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "link-to-m").symlink_to(tmp_path / "real" / "m")

    def placed(url):
        scheme, slashes, path = url.rpartition("://")
        return normalize(url if scheme not in ("", "file") else f"{scheme}{slashes}{tmp_path}{path}")

    for one, two in ((root, other), (other, root)):
        assert is_one_place(placed(one), placed(two)) is is_one


UNSAFE = [
    ("AWS_S3_ALLOW_UNSAFE_RENAME", "true"),
    ("AWS_S3_ALLOW_UNSAFE_RENAME", "1"),
    ("AWS_S3_ALLOW_UNSAFE_RENAME", "Yes"),
    ("aws_s3_allow_unsafe_rename", "ON"),
    ("MOUNT_ALLOW_UNSAFE_RENAME",  "true"),
    ("allow_unsafe_rename",        "y"),
    ("AWS_S3_LOCKING_PROVIDER",    "dynamodb"),
    ("aws_conditional_put",        "disabled"),
    ("AWS_CONDITIONAL_PUT",        "dynamo:table"),
    ("AWS_CONDITIONAL_PUT",        "disabled"),
]


@pytest.mark.parametrize("name, value", UNSAFE)
def test_setting_that_switches_conditional_puts_off_is_refused(monkeypatch, name, value):
    for options in ({name: value}, {"s3://bucket": {name: value}}):
        with pytest.raises(InvalidRootError, match=name):
            StorageOptions(options)
    before = StorageOptions()
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidRootError, match=name):
        StorageOptions()
    # An executor's environment is another than the driver's.
    with pytest.raises(InvalidRootError, match=name):
        pickle.loads(pickle.dumps(before))


@pytest.mark.parametrize("name, value", UNSAFE)
def test_setting_that_switches_conditional_puts_off_later_is_refused_before_a_put(monkeypatch, name, value):
    files = RootFiles("s3://bucket", StorageOptions({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}))
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidRootError, match=f"{name} switches conditional puts off"):
        files.write_if_absent("s3://bucket/file", b"")




@pytest.mark.parametrize("name, value", [
    ("AWS_S3_ALLOW_UNSAFE_RENAME", "false"),
    ("AWS_S3_ALLOW_UNSAFE_RENAME", ""),
    ("aws_conditional_put",        "etag"),
    ("AWS_REGION",                 "true"),
])
def test_setting_that_leaves_conditional_puts_on_is_taken(monkeypatch, name, value):
    monkeypatch.setenv(name, value)

    assert StorageOptions({name: value}).for_url("s3://bucket") == ({name: value} if value else {})


def test_longest_prefix_decides_whose_credentials_a_url_gets():
    options = StorageOptions({"s3://a": {"endpoint_url": 1}, "s3://a/b": {"endpoint_url": 2}, "gs://": {"endpoint_url": 3}})

    assert options.for_url("s3://a/c") == {"endpoint_url": "1"}
    assert options.for_url("s3://a/b/c") == options.for_url("s3://a/b") == {"endpoint_url": "2"}
    assert options.for_url("gs://anything") == {"endpoint_url": "3"}
    # Another bucket, whose name begins alike, must not get them.
    assert options.for_url("s3://ab") == {}
    assert options.for_url("/data") == {}
# fmt: on


def of_s3(code, message):
    """Return what s3fs raises of an answer of S3."""
    error = OSError(errno.EIO, "Bad Request")
    error.__cause__ = RuntimeError()
    error.__cause__.response = {"Error": {"Code": code, "Message": message}}
    return error


def of_azure(code, text):
    error = RuntimeError(text)
    error.error_code = code
    return error


# fmt: off
WORDS = [
    pytest.param(of_s3("InvalidBucketName", "The bucket is not valid."), "The bucket is not valid. (InvalidBucketName)", id="S3"),
    pytest.param(of_s3("SlowDown", ""),                                  "(SlowDown)",                                   id="S3, a code alone"),
    pytest.param(of_s3("400", "Bad Request"),                            "Bad Request",                                  id="S3, a HEAD"),
    pytest.param(of_azure("ServerBusy", "Too busy.\nRequestId:1\nTime:2"), "Too busy. (ServerBusy)",                     id="Azure"),
    pytest.param(of_azure(None, "no\nroute"),                            "no route",                                     id="Azure, before an answer"),
    pytest.param(PermissionError("Forbidden: b\nno access"),             "Forbidden: b no access",                       id="Google"),
]
# fmt: on


@pytest.mark.parametrize("raised, words", WORDS)
def test_reason_is_in_the_words_of_the_store(raised, words):
    assert storage_error(raised, "read s3://b/f").message == f"can't read s3://b/f: {words}"


@pytest.mark.parametrize("kind", [OSError, ValueError, RuntimeError])
def test_secret_that_a_library_tells_is_not_passed_on(log, uri, monkeypatch, caplog, kind):
    def tell(*args, **kwargs):
        raise kind(f"SignatureDoesNotMatch: {CANARY}")

    caplog.set_level(logging.DEBUG, logger="kafka_on_spark")
    monkeypatch.setattr(delta_log, "RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 1)
    monkeypatch.setattr(delta_log, "write_checkpoint", tell)
    monkeypatch.setattr(roots, "filesystem", tell)
    options = StorageOptions(SECRETS)

    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        create("s3://a/table", options)
    with pytest.raises(KafkaOnSparkError) as failed:
        opened("s3://a/table", options)
    table = opened(uri, options)
    commit(table, table.version)
    table.checkpoint_if_due()

    for error in (unknown, failed):
        text = "".join(traceback.format_exception(error.value))
        assert "[hidden]" in text
        assert CANARY not in text
    assert "no checkpoint" in caplog.text
    assert "[hidden]" in caplog.text
    assert CANARY not in caplog.text


def test_new_root_gets_an_identity_and_nothing_else(root):
    identity = prepare(root / "new")

    assert read_identity(str(root / "new"), OPTIONS) == identity
    assert (identity.cluster_id, identity.broker_id) == ("a-cluster", 1)
    assert [path.name for path in (root / "new").iterdir()] == [META_PROPERTIES]
    assert RootIdentity("a-cluster", BrokerId(1), identity.directory_id) == identity


@pytest.mark.parametrize(
    "content", [b"", b"broker.id=x\ncluster.id=a\ndirectory.id=b", b"\xff\xfe", b"version=1"]
)
def test_root_whose_identity_is_garbage_is_refused_and_left_alone(root, content):
    (root / META_PROPERTIES).write_bytes(content)

    with pytest.raises(InvalidRootError, match="not a broker's"):
        prepare(root)

    assert (root / META_PROPERTIES).read_bytes() == content


def make_link_to_identity(root):
    (root / "place").mkdir()
    (root / "place" / META_PROPERTIES).symlink_to("/etc/hostname")
    return root / "place"


def make_folder_for_identity(root):
    (root / "place" / META_PROPERTIES).mkdir(parents=True)
    return root / "place"


@pytest.mark.parametrize("place", [make_link_to_identity, make_folder_for_identity])
def test_place_that_can_not_be_a_root_is_refused_in_one_sentence(root, place):
    given = str(place(root))

    with pytest.raises(InvalidRootError) as refusal:
        prepare(given)

    assert given in refusal.value.message
    assert "\n" not in refusal.value.message


SENTENCES = {
    "away": "does not exist",
    "emptied": "not the disk it was",
    "foreign": "not the disk it was",
}


@pytest.mark.parametrize("check", [probe_root, check_directory])
@pytest.mark.parametrize("what", ["away", "emptied", "foreign"])
def test_root_that_is_another_disk_or_none_is_away_and_not_created_again(root, what, check):
    identity = prepare(root)
    root.rename(f"{root}-away")
    if what == "emptied":
        root.mkdir()
    if what == "foreign":
        prepare(root)

    with pytest.raises(KafkaStorageError, match=SENTENCES[what]):
        check(str(root), identity.directory_id, OPTIONS)

    assert root.exists() == (what != "away")


def test_probe_of_a_root_that_takes_no_writes_says_so(root, monkeypatch):
    identity = prepare(root)

    def read_only(*args):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "rename", read_only)

    with pytest.raises(RootReadOnlyError, match="Read-only"):
        probe_root(str(root), identity.directory_id, OPTIONS)


def test_a_probe_of_a_size_is_refused_where_there_is_no_room_for_it_and_takes_none(
    root, monkeypatch
):
    identity, room = prepare(root), os.statvfs(root)
    free = os.statvfs_result((*room[:1], 4096, room[2], 3, 3, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: free)

    probe_root(str(root), identity.directory_id, OPTIONS, 3 * 4096)
    with monkeypatch.context() as patch:
        patch.setattr(RootFiles, "write", None)
        with pytest.raises(RootFullError, match="can't write 12289 bytes"):
            probe_root(str(root), identity.directory_id, OPTIONS, 3 * 4096 + 1)

    assert [path.name for path in root.iterdir()] == [META_PROPERTIES]


def test_a_copy_that_finds_no_room_keeps_no_file_open_whoever_keeps_its_error(root, monkeypatch):
    def pieces():
        with (root / "source").open("rb") as source:
            is_open.append(True)
            try:
                yield source.read()
            finally:
                is_open.clear()

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left")

    is_open = []
    (root / "source").write_bytes(b"content")
    monkeypatch.setattr(os, "write", refuse)

    with pytest.raises(RootFullError) as kept:
        RootFiles(str(root), OPTIONS).write_all([(f"{root}/copy", pieces())])

    assert kept.value.__traceback__ is not None
    assert is_open == []


class StatusError(Exception):
    """As stores' clients raise."""

    def __init__(self, status):
        super().__init__("the store refuses")
        self.status_code = status


# fmt: off
KINDS = [
    pytest.param(OSError(errno.ENOSPC, "No space left"),                                     RootFullError,         id="no-space"),
    pytest.param(OSError(errno.EDQUOT, "Disk quota exceeded"),                               RootFullError,         id="quota"),
    pytest.param(StatusError(507),                                                           RootFullError,         id="insufficient-storage"),
    pytest.param(OSError(errno.EROFS, "Read-only file system"),                              RootReadOnlyError,     id="read-only"),
    pytest.param(OSError(errno.EACCES, "Permission denied"),                                 RootAccessDeniedError, id="denied"),
    pytest.param(type("Of", (type("RefreshError", (Exception,), {}),), {})("revoked"),       RootAccessDeniedError, id="key revoked"),
    pytest.param(type("RefreshError", (Exception,), {"retryable": True})("away"),            KafkaStorageError,     id="who gives keys is away"),
    pytest.param(StatusError(503),                                                           KafkaStorageError,     id="slow-down"),
    pytest.param(OSError(errno.EIO, "Input/output error"),                                   KafkaStorageError,     id="broken"),
]
# fmt: on


@pytest.mark.parametrize("raised, kind", KINDS)
def test_what_a_root_refuses_is_told_from_what_fails(raised, kind):
    error = storage_error(raised, "write /a/file")

    assert type(error) is kind
    advice = {RootFullError: ": make room there", RootReadOnlyError: ": mount it writable"}
    assert error.message.endswith(advice.get(kind, ""))
    assert storage_error(error, "append").message.count("there") <= 1  # once, whoever passes it on


@pytest.mark.parametrize("count", [1, 2])
def test_disk_that_goes_before_the_files_have_their_names_is_absent(root, monkeypatch, count):
    root.mkdir(exist_ok=True)
    rename = os.rename

    def rename_where_the_disk_has_gone(*names):
        if root.exists():
            rename(root, f"{root}-away")
        rename(*names)

    monkeypatch.setattr(os, "rename", rename_where_the_disk_has_gone)

    with pytest.raises(KafkaStorageError, match="can't write"):
        RootFiles(str(root), OPTIONS).write_all(
            [(f"{root}/{number}", [b"content"]) for number in range(count)]
        )


def test_link_is_never_followed(root):
    (root / "secret").write_bytes(b"elsewhere")
    (root / "link").symlink_to(root / "secret")

    with pytest.raises(KafkaStorageError):
        RootFiles(str(root), OPTIONS).read(f"{root}/link", 100)

"""Credentials by name: from a profile or the environment, by bucket, and errors for wrong names."""

import os
import pickle
import sys
import time
from functools import lru_cache

import pytest

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    InvalidRootError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.spark.jvm import PROFILE_PROVIDER, hadoop_options
from kafka_on_spark.store import roots, storage_options
from kafka_on_spark.store.deadlines import untimed, within
from kafka_on_spark.store.roots import RootFiles, filesystem, normalize
from kafka_on_spark.store.s3_files import S3Files
from kafka_on_spark.store.storage_options import StorageOptions, client_options

SECRET = "canary-Hw4tXc8LmQ"
URL = "s3://bucket/root"

PROFILES = f"""
[profile one]
aws_access_key_id = id-of-one
aws_secret_access_key = {SECRET}
region = eu-west-1
endpoint_url = http://127.0.0.1:1

[profile two]
aws_access_key_id = id-of-two
aws_secret_access_key = {SECRET}-2
aws_session_token = {SECRET}-token

[profile keyless]
region = eu-west-1
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", storage_options.NAMES_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text(PROFILES)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("STORE_AWS_ACCESS_KEY_ID", "id-of-store")
    monkeypatch.setenv("STORE_AWS_SECRET_ACCESS_KEY", SECRET)
    storage_options._read_profile.cache_clear()
    yield
    storage_options._read_profile.cache_clear()


ONE = {
    "aws_access_key_id": "id-of-one",
    "aws_secret_access_key": SECRET,
    "aws_region": "eu-west-1",
    "aws_endpoint_url": "http://127.0.0.1:1",
    "aws_allow_http": "true",
}
STORE = {"aws_access_key_id": "id-of-store", "aws_secret_access_key": SECRET}

# fmt: off
NAMED = [
    pytest.param({"credentials": "profile:one"},                        ONE,                               id="profile for all"),
    pytest.param({"AWS_PROFILE": "one"},                                ONE,                               id="in delta-rs's words"),
    pytest.param({"s3://bucket": "profile:one"},                        ONE,                               id="profile of a bucket"),
    pytest.param({"s3a://bucket/": "profile:one"},                      ONE,                               id="under the scheme's other name"),
    pytest.param({"s3://bucket": "env:STORE"},                          STORE,                             id="environment"),
    pytest.param({"s3://bucket": {"credentials": "env:STORE", "timeout": "1s"}}, STORE | {"timeout": "1s"}, id="with settings"),
    pytest.param({"s3://bucket": "env:STORE", "timeout": "1s"},         STORE | {"timeout": "1s"},         id="with settings for all"),
    pytest.param({"s3://bucket": "env:STORE", "AWS_SESSION_TOKEN": "t"}, STORE,                            id="nobody else's token"),
    pytest.param({"s3://other": "env:STORE", "AWS_REGION": "x"},        {"AWS_REGION": "x"},               id="another bucket's"),
    pytest.param({"s3://bucket": "profile:one", URL: "env:STORE"},      STORE,                             id="the longest prefix"),
    pytest.param({"s3://bucket": {"credentials": "profile:one", "region_name": "x", "endpoint_url": ""}}, {k: v for k, v in ONE.items() if k != "aws_region"} | {"region_name": "x"}, id="explicit ones win, under any name"),
    pytest.param({"s3://bucket/roo": "profile:one"},                    {},                                id="half a name is none"),
]
# fmt: on


@pytest.mark.parametrize("given, expected", NAMED)
def test_name_stands_for_what_this_process_finds_under_it(given, expected):
    assert StorageOptions(given).for_url(URL) == expected


def test_names_travel_and_what_they_stand_for_does_not():
    options = StorageOptions({"s3://bucket": "profile:two", "s3://other": "env:STORE"})
    options.for_url(URL)
    options.for_url("s3://other")

    assert SECRET.encode() not in pickle.dumps(options)
    assert SECRET not in f"{options!r} {RootFiles(URL, options)!r}"
    assert pickle.loads(pickle.dumps(options)) == options
    # A library's error may show the secret.
    for secret in (SECRET, f"{SECRET}-2", f"{SECRET}-token"):
        assert options.redact(f"bad: {secret}") == "bad: [hidden]"


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "azure_storage_account_key",
        "access_key",
        "google_service_account_key",
        "sas_token",
        "secret",
        "token",
    ],
)
def test_secret_of_any_store_is_hidden(name):
    options = StorageOptions({name: SECRET, "aws_access_key_id": "an-id-that-is-no-secret"})

    assert (
        options.redact(f"{SECRET} of an-id-that-is-no-secret")
        == "[hidden] of an-id-that-is-no-secret"
    )


def test_key_in_a_connection_string_is_hidden_also_alone():
    text = f"DefaultEndpointsProtocol=https;AccountName=account;AccountKey={SECRET}=="
    options = StorageOptions({"connection_string": text})

    assert options.redact(f"{text} {SECRET}==") == "[hidden] [hidden]"


def test_secret_is_hidden_as_a_part_of_a_url_and_the_error_that_shows_it_is_not_chained():
    options = StorageOptions({"aws_session_token": "IQoJ/b3+ u=="})

    for shown in ("IQoJ/b3%2B%20u%3D%3D", "IQoJ%2Fb3%2B+u%3D%3D"):
        assert options.redact(f"?access_token={shown}") == "?access_token=[hidden]"
        assert options.shown(ValueError(shown)) is None


def test_client_that_cant_be_made_of_what_the_caller_gives_is_denied_access(monkeypatch):
    def refuse(**_):
        raise ValueError(f"malformed: {SECRET}")

    monkeypatch.setattr(roots, "_client_of", lambda _: refuse)

    with pytest.raises(
        RootAccessDeniedError, match=r"can't use az://b.*given: malformed: .hidden"
    ) as no:
        RootFiles("az://b", StorageOptions({"connection_string": SECRET})).read("az://b/f", 1)

    assert no.value.__cause__ is None


# fmt: off
MISSING = [
    pytest.param("profile:three",   ["profile:three", "ProfileNotFound", "AWS_CONFIG_FILE", "executors"],     id="no profile"),
    pytest.param("profile:keyless", ["profile:keyless", "has no keys"],                                       id="profile without keys"),
    pytest.param("env:REGION",      ["env:REGION", "begins with REGION_", "REGION_AWS_ACCESS_KEY_ID"],        id="variables without keys"),
    pytest.param("env:NOBODY",      ["env:NOBODY", "NOBODY_AWS_ACCESS_KEY_ID", "executors"],                  id="no variables"),
]
# fmt: on


@pytest.mark.parametrize("name, words", MISSING)
def test_missing_credentials_are_one_sentence_with_root_and_name(monkeypatch, name, words):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("REGION_AWS_REGION", "eu-west-1")
    files = RootFiles(URL, StorageOptions({"s3://bucket": name}))

    with pytest.raises(KafkaStorageError) as refusal:
        files.read(f"{URL}/file", 100)

    said = refusal.value.message
    assert "\n" not in said
    assert not [word for word in [URL, *words] if word not in said]


def test_keys_that_become_others_leave_no_more_than_a_few_clients_and_secrets(
    monkeypatch, tmp_path
):
    """A service that runs for months would else keep a client of each key that it had."""
    monkeypatch.setattr(storage_options, "_LOOKED_UP_MAX", 4)
    assert roots._made.cache_info().maxsize == roots.CLIENTS_MAX
    few = lru_cache(maxsize=4)(roots._made.__wrapped__)
    monkeypatch.setattr(roots, "_made", few)
    options = StorageOptions({"s3://bucket": "profile:often"})
    seen = []
    for number in range(8):
        keys = f"aws_access_key_id = id-{number}\naws_secret_access_key = secret-{number}\n"
        (tmp_path / "config").write_text(f"[profile often]\n{keys}")
        os.utime(tmp_path / "config", (number, number))
        seen.append(filesystem(URL, options))
        assert filesystem(URL, options) is seen[-1]

    assert len({each.key for each in seen}) == len(seen)
    assert few.cache_info().currsize == 4
    assert not [each for each in S3Files._cache.values() if each in seen]
    newest = f"secret-{len(seen) - 1}"
    assert options.redact(f"{newest} secret-1") == "[hidden] secret-1"


def test_a_forked_child_has_file_systems_of_its_own(monkeypatch):
    """Those of its parent need a thread that the child does not have."""
    options = StorageOptions({URL: "profile:one"})
    ours = filesystem(URL, options)
    monkeypatch.setattr(roots.os, "getpid", lambda: -1)

    childs = filesystem(URL, options)

    assert childs is not ours
    assert filesystem(URL, options) is childs


def test_temporary_keys_are_used_until_they_expire_or_their_profile_changes(tmp_path):
    """Each new set of them is another client, and a request to whoever gives them."""
    process = tmp_path / "keys"
    process.write_text(
        "#!/bin/sh\n"
        'echo "{\\"Version\\": 1, \\"AccessKeyId\\": \\"id-$$\\", \\"SecretAccessKey\\": \\"s\\",'
        ' \\"SessionToken\\": \\"t\\", \\"Expiration\\": \\"2999-01-01T00:00:00Z\\"}"\n'
    )
    process.chmod(0o700)
    config = tmp_path / "config"
    config.write_text(f"[profile temporary]\ncredential_process = {process}\n")
    options = StorageOptions({"s3://bucket": "profile:temporary"})
    first = options.for_url(URL)

    for _ in range(5):
        assert options.for_url(URL) == first
    config.write_text(f"{config.read_text()}region = eu-west-1\n")

    other = options.for_url(URL)
    assert other["aws_region"] == "eu-west-1"
    assert other["aws_access_key_id"] != first["aws_access_key_id"]


@pytest.mark.parametrize("given", [{"sas_token": "s"}, {"client_id": "i"}, {"anon": "true"}])
def test_account_key_of_the_environment_is_not_used_beside_the_credentials_of_others(
    monkeypatch, given
):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)

    with pytest.raises(KafkaStorageError, match="AZURE_STORAGE_ACCOUNT_KEY would be") as refusal:
        StorageOptions(given).for_url("az://box")

    assert SECRET not in refusal.value.message
    for others in ({"account_name": "a"}, {"anon": "false"}, {"sas_token": ""}):
        StorageOptions(others).for_url("az://box")


# fmt: off
@pytest.mark.parametrize("given", [
    {"s3://bucket": SECRET}, {"s3://bucket": ["profile:one"]}, {"credentials": SECRET}, {"s3://bucket": f"profil:{SECRET}"},
    {"s3://bucket": {"credentials": f"env:{SECRET}"}}, {"s3://bucket": "profile:"}, {"s3://bucket": "env:A-B"},
])
def test_what_names_no_credentials_is_refused_and_not_repeated(given):
    with pytest.raises(InvalidRequestError, match="names no credentials: give profile:NAME") as refusal:
        StorageOptions(given)

    assert SECRET not in str(refusal.value)
# fmt: on


@pytest.mark.parametrize("names", [f"s3://bucket={SECRET}", SECRET, "profile:one"])
def test_variable_that_names_nothing_is_refused_and_not_repeated(monkeypatch, names):
    monkeypatch.setenv(storage_options.NAMES_VARIABLE, names)

    with pytest.raises(InvalidRequestError, match=storage_options.NAMES_VARIABLE) as refusal:
        StorageOptions().for_url(URL)

    assert SECRET not in str(refusal.value)


# fmt: off
GOOGLE_KEY = {"type": "service_account"}
AT_HOME = "abfss://box@account.dfs.core.windows.net/a"
ABROAD = "abfss://box@account.dfs.core.chinacloudapi.cn/a"
CLIENTS = [
    pytest.param("gs://b", {"GOOGLE_SERVICE_ACCOUNT": "/key.json"},                       {"token": "/key.json"},                            id="Google: file"),
    pytest.param("gs://b", {"google_service_account_key": '{"type": "service_account"}'}, {"key_file": GOOGLE_KEY},                           id="Google: text"),
    pytest.param("gs://b", {"aws_access_key_id": "i", "token": "of-s3", "endpoint_url": "u", "ENDPOINT": "e"}, {},                            id="Google: nothing of S3's"),
    pytest.param("gs://b", {"gs://b": {"token": "t", "endpoint_url": "u"}, "token": "of-s3"}, {"token": "t", "endpoint_url": "u"},            id="Google: below its prefix"),
    pytest.param("gs://b", {"google_endpoint_url": "u", "anon": "true", "project": "p", "timeout": "1s"}, {"endpoint_url": "u", "anon": True, "project": "p", "times": {"sock_read": 1.0}}, id="Google: fsspec's"),
    pytest.param("gs://b", {"STORAGE_EMULATOR_HOST": "u", "anon": "no", "account_name": "a"}, {"endpoint_url": "u", "anon": False},            id="Google: emulator"),
    pytest.param("az://b", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "k"}, {"account_name": "a", "account_key": "k"},  id="Azure: key"),
    pytest.param("abfs://b", {"account_name": "a", "azure_storage_sas_key": "s"},         {"account_name": "a", "sas_token": "s"},            id="Azure: SAS"),
    pytest.param("az://b", {"azure_client_id": "i", "client_secret": "s", "azure_storage_authority_id": "t"}, {"client_id": "i", "client_secret": "s", "tenant_id": "t"}, id="Azure: principal"),
    pytest.param("az://b", {"azure_storage_connection_string": "c", "connect_timeout": "1m", "max_retries": "7", "aws_region": "x"}, {"connection_string": "c", "settings": {"connection_timeout": 60.0, "retry_total": 7}}, id="Azure: connection string"),
    pytest.param("az://b", {"account_host": "h", "endpoint": "of-s3"},                    {"endpoint_url": "h"},                              id="Azure: host"),
    pytest.param(AT_HOME,  {"account_name": "other", "account_key": "k"},                 {"account_name": "account", "endpoint_url": "account.blob.core.windows.net", "account_key": "k"}, id="Azure: account of the URL"),
    pytest.param(ABROAD,   {},                                                            {"account_name": "account", "endpoint_url": "account.blob.core.chinacloudapi.cn"}, id="Azure: cloud of the URL"),
    pytest.param(AT_HOME,  {"azure_storage_endpoint": "http://h/account"},                {"account_name": "account", "endpoint_url": "http://h/account"}, id="Azure: emulator"),
    pytest.param("s3://b", {"ACCESS_KEY_ID": "i", "secret_access_key": "s", "endpoint_url": "e", "endpoint": "x", "AWS_ALLOW_HTTP": "true"}, {"key": "i", "secret": "s", "client_kwargs": {"endpoint_url": "e"}}, id="S3: short"),
    pytest.param("s3a://b", {"key": "i", "anon": "False", "region_name": "r", "timeout": "500ms", "max_retries": "2"}, {"key": "i", "anon": False, "client_kwargs": {"region_name": "r"}, "config_kwargs": {"read_timeout": 0.5, "retries": {"max_attempts": 2}}}, id="S3: fsspec's"),
]
REFUSED = [
    pytest.param({"regoin": "x"},                            "regoin is none of S3 or Azure or Google", id="of no store"),
    pytest.param({"azure_storage_use_emulator": "true"},     "use_emulator is none of",                 id="of another client"),
    pytest.param({"aws_account_name": "x"},                  "aws_account_name is none of",             id="in another store's words"),
    pytest.param({"s3://bucket": {"account_name": SECRET}},  "account_name is none of S3, so",          id="of another store than the URL's"),
    pytest.param({"hdfs://h/a": {"user": "x"}},              "hdfs://h/a takes no options, and user is given", id="of HDFS"),
    pytest.param({"bucket": {"region": "x"}},                "bucket is none of",                       id="of no URL"),
]
VALUES = [
    pytest.param("gs://b", {"google_service_account_key": SECRET}, "service_account_key is no JSON",  id="key file"),
    pytest.param("s3://b", {"timeout": "soon"},                    "timeout can't be 'soon'",         id="duration"),
    pytest.param("az://b", {"max_retries": "-1"},                  "max_retries can't be '-1'",       id="count"),
    pytest.param("s3://b", {"aws_skip_signature": "maybe"},        "skip_signature can't be 'maybe'", id="flag"),
]
# fmt: on


@pytest.mark.parametrize("url, given, expected", CLIENTS)
def test_options_are_arguments_of_each_stores_client(url, given, expected):
    options = StorageOptions(given).for_url(url)

    assert client_options(url, options) == {"use_listings_cache": False, **expected}


@pytest.mark.parametrize("given, words", REFUSED)
def test_option_that_nothing_would_obey_is_refused_at_once(given, words):
    with pytest.raises(InvalidRequestError, match=words) as refusal:
        StorageOptions(given)

    assert SECRET not in refusal.value.message


@pytest.mark.parametrize("url, given, words", VALUES)
def test_value_that_an_option_cannot_have_is_refused(url, given, words):
    with pytest.raises(InvalidRootError, match=words) as refusal:
        client_options(url, given)

    assert SECRET not in str(refusal.value)


def test_variables_beside_the_options_of_a_prefix_are_left(monkeypatch):
    monkeypatch.setenv("STORE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("STORE_AWS_CA_BUNDLE", "/etc/ca.pem")
    monkeypatch.setenv("STORE_AZURE_STORAGE_SAS_TOKEN", "s")
    options = StorageOptions({"s3://bucket": "env:STORE"})

    assert client_options(URL, options.for_url(URL)).keys() == {
        "use_listings_cache",
        "key",
        "secret",
    }


def test_import_of_a_client_is_no_part_of_a_calls_time():
    def work():
        with untimed():
            time.sleep(0.2)
        return "done"

    assert within("s3://bucket/slow", work, 0.05) == "done"


@pytest.mark.parametrize(
    "url, package",
    [
        ("gs://b/a", "gcsfs"),
        ("abfss://box@account/a", "adlfs"),
        ("az://box/a", "adlfs"),
        ("s3://b/a", "s3fs"),
    ],
)
def test_store_whose_package_is_not_installed_is_one_sentence(monkeypatch, url, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.core", None)
    for name in ("s3_files", "azure_files", "google_files"):
        monkeypatch.delitem(sys.modules, f"kafka_on_spark.store.{name}", raising=False)

    with pytest.raises(
        InvalidRootError, match=f"the root {url} needs the package {package}.*on_spark.[a-z3]+., on"
    ) as refusal:
        filesystem(url, StorageOptions())

    assert "\n" not in refusal.value.message


# fmt: off
@pytest.mark.parametrize("given", [
    "s3://key@bucket/a", "gs://key@bucket/a", "az://key@box/a", "s3://bucket/a//b", "s3://bucket/a/../b", "gs://bucket/./a", "abfss://box@account/a/*",
    "s3://bucket/a b", "s3://bucket/a[1]", "s3:///a", "gs://", "abfs://user:password@account/a",
])
def test_url_that_two_clients_would_read_in_two_ways_is_refused(given):
    with pytest.raises(InvalidRootError) as refusal:
        normalize(given)

    assert "password" not in refusal.value.message
    assert "\n" not in refusal.value.message
# fmt: on


_ONE = {
    "endpoint": "http://127.0.0.1:1",
    "path.style.access": "true",
    "endpoint.region": "eu-west-1",
    "aws.credentials.provider": PROFILE_PROVIDER,
    "auth.profile.name": "one",
}
_TWO = {"aws.credentials.provider": PROFILE_PROVIDER, "auth.profile.name": "two"}
_GIVEN = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-west-2"}
_VIRTUAL = {"endpoint": "https://store", "virtual_hosted_style_request": "TRUE"}

# fmt: off
IN_HADOOPS_WORDS = [
    pytest.param({"s3://bucket": "profile:one"},                  _ONE,                                       id="a profile, with its endpoint"),
    pytest.param({"profile": "two"},                              _TWO,                                       id="a profile by delta-rs's word"),
    pytest.param({"s3://bucket": "env:STORE"},                    {},                                         id="keys of the environment stay here"),
    pytest.param(_GIVEN,                                          {"endpoint.region": "us-west-2"},           id="keys that are given stay here"),
    pytest.param({"s3://bucket": _VIRTUAL},                       {"endpoint": "https://store", "path.style.access": "false"}, id="buckets in host names"),
    pytest.param({"s3://other": "profile:one"},                   {},                                         id="another bucket's"),
]
# fmt: on


@pytest.mark.parametrize("given, expected", IN_HADOOPS_WORDS)
def test_hadoops_client_is_told_names_and_addresses_and_no_keys(given, expected):
    told = hadoop_options(["/a/disk", "gs://lake/root", URL], StorageOptions(given))

    assert told == {f"fs.s3a.bucket.bucket.{name}": text for name, text in expected.items()}

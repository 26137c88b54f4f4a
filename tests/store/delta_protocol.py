"""Delta's protocol for writers of version 2, as far as our tables use it: what a commit must be.

Written from the protocol's text and not from the product, so that the two are checked by each
other.
"""

import json
from uuid import UUID

FIELDS = {
    "add": {
        "path": str,
        "partitionValues": dict,
        "size": int,
        "modificationTime": int,
        "dataChange": bool,
        "stats": str,
    },
    "remove": {
        "path": str,
        "deletionTimestamp": int,
        "dataChange": bool,
        "extendedFileMetadata": bool,
        "partitionValues": dict,
        "size": int,
    },
    "txn": {"appId": str, "version": int},
    "protocol": {"minReaderVersion": int, "minWriterVersion": int},
    "metaData": {
        "id": str,
        "name": type(None),
        "description": type(None),
        "format": dict,
        "schemaString": str,
        "partitionColumns": list,
        "createdTime": int,
        "configuration": dict,
    },
    "commitInfo": None,
}
"""The actions of our tables, with all fields of each; `commitInfo` may have any."""


def broken_rules(version, content, partition_columns):
    """Return what is wrong with the bytes of a commit, as sentences."""
    actions = [json.loads(line) for line in content.decode().split("\n")[:-1]]
    broken = [] if content.endswith(b"\n") else ["the last line has no end"]
    broken += [f"a line of {len(each)} actions" for each in actions if len(each) != 1]
    named = [(name, body) for action in actions for name, body in action.items()]
    for name, body in named:
        broken += _broken_fields(name, body)
    if broken:
        return broken
    return [
        *_broken_counts(version, [name for name, _ in named]),
        *_broken_files(named, partition_columns),
        *_broken_counters([body["appId"] for name, body in named if name == "txn"]),
        *(each for name, body in named if name == "protocol" for each in _broken_protocol(body)),
        *(each for name, body in named if name == "metaData" for each in _broken_settings(body)),
    ]


def partition_columns_of(content):
    """Return the partition columns that the bytes of version 0 name."""
    actions = [json.loads(line) for line in content.splitlines()]
    [settings] = [each["metaData"] for each in actions if "metaData" in each]
    return settings["partitionColumns"]


def _broken_fields(name, body):
    if name not in FIELDS:
        return [f"an action {name}"]
    if FIELDS[name] is None:
        return []
    kinds = FIELDS[name]
    if body.keys() != kinds.keys():
        return [f"{name} has the fields {sorted(body)}"]
    return [
        f"{name}.{field} is {body[field]!r}"
        for field, kind in kinds.items()
        if type(body[field]) is not kind or (kind is int and body[field] < 0 and name != "txn")
    ]


def _broken_counts(version, names):
    settings = 1 if version == 0 else 0
    wanted = {"protocol": settings, "metaData": settings, "commitInfo": 1}
    broken = [
        f"{names.count(name)} {name} at version {version}"
        for name, count in wanted.items()
        if names.count(name) != count
    ]
    return broken if names[0] == "commitInfo" else [*broken, "commitInfo is not the first"]


def _broken_files(named, partition_columns):
    files = [(name, body) for name, body in named if name in ("add", "remove")]
    broken = []
    for name, body in files:
        values = body["partitionValues"]
        if values.keys() != set(partition_columns):
            broken.append(f"{name} names the partition columns {sorted(values)}")
        if not all(each is None or type(each) is str for each in values.values()):
            broken.append(f"{name} has a partition value that is no text")
    broken += [
        "statistics that are no object"
        for name, body in files
        if name == "add" and type(json.loads(body["stats"])) is not dict
    ]
    paths = [body["path"] for _, body in files]
    return broken if len(paths) == len(set(paths)) else [*broken, "two actions on one file"]


def _broken_counters(names):
    return [] if len(names) == len(set(names)) else ["a counter is set twice"]


def _broken_protocol(body):
    found = (body["minReaderVersion"], body["minWriterVersion"])
    return [] if found == (1, 2) else [f"the protocol is {found}"]


def _broken_settings(body):
    UUID(body["id"])
    schema = json.loads(body["schemaString"])
    columns = {each["name"] for each in schema["fields"]}
    broken = []
    if body["format"] != {"provider": "parquet", "options": {}}:
        broken.append(f"the format is {body['format']}")
    if not set(body["partitionColumns"]) <= columns:
        broken.append("a partition column that is no column")
    if not all(type(each) is str for pair in body["configuration"].items() for each in pair):
        broken.append("a setting that is no text")
    return broken

"""`configs`: shows and alters settings of topics and of the cluster, as kafka-configs does."""

import re
from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Annotated, Any, Final

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.kafka_files import named_topics
from kafka_on_spark.cli.options import Include, pairs
from kafka_on_spark.cli.output import write_rows
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, verb
from kafka_on_spark.metadata.image import MetadataImage

_BETWEEN_SETTINGS: Final = re.compile(r",(?=[^\]]*(?:\[|$))")  # not a comma in brackets

Entities = Annotated[
    str,
    "--topic",
    "--entity-name",
    "NAMES",
    "Topics with commas between; without it and --include, the cluster.",
]
EntityType = Annotated[
    str,
    "topics|brokers",
    "Settings of topics, or of brokers: all brokers have the cluster's settings.",
]
EntityDefault = Annotated[bool, "Settings of all brokers, which are the cluster's."]


def describe(
    session: Session,
    topic: Entities | None = None,
    include: Include | None = None,
    entity_type: EntityType | None = None,
    entity_default: EntityDefault = False,
    all_: Annotated[bool, "Show also inherited settings and defaults."] = False,
) -> None:
    """Show settings."""
    image = session.cluster.image
    names: Sequence[str | None] = [None]
    if not _is_of_cluster(topic, include, entity_type, is_default=entity_default):
        names = named_topics(image, topic, include)
    rows = [row for name in names for row in setting_rows(image, name, is_all=all_)]
    write_rows(session.output, "entity name value source", rows)


def _is_of_cluster(
    name: str | None, include: str | None, kind: str | None, *, is_default: bool
) -> bool:
    """Return whether the call means the cluster's settings, and not those of topics."""
    if kind not in (None, "topics", "brokers"):
        raise InvalidRequestError(
            f"--entity-type can't be {kind!r}: give 'topics', or 'brokers', which all have the"
            " cluster's settings"
        )
    if kind == "topics" and is_default:
        raise InvalidRequestError(
            "the defaults of topics are the cluster's settings: give --entity-type brokers"
        )
    is_named = name is not None or include is not None
    if is_named and (kind == "brokers" or is_default):
        raise InvalidRequestError(
            f"a single broker has no settings, so --entity-name can't be {name or include!r}: leave"
            " it out for the settings of all brokers, which are the cluster's"
        )
    return not is_named and kind != "topics"


def setting_rows(
    image: MetadataImage, topic: str | None, *, is_all: bool
) -> Iterator[dict[str, Any]]:
    """Yield the settings of a topic, or (None) of the cluster, with the source of each.

    Without `is_all` only its own settings, not the inherited ones.
    """
    own = image.configs if topic is None else image.topic(topic).configs
    for name in sorted(SETTINGS):
        setting = SETTINGS[name]
        is_inherited = name not in own
        if is_inherited and not (is_all and (topic is None or setting.is_topic_setting)):
            continue
        source = "default" if name not in image.configs else "cluster"
        yield {
            "entity": "cluster" if topic is None else f"topic {topic}",
            "name": name,
            "value": own.get(name, image.configs.get(name, setting.default)),
            "source": source if is_inherited else "cluster" if topic is None else "topic",
        }


def alter(
    session: Session,
    topic: Entities | None = None,
    include: Include | None = None,
    entity_type: EntityType | None = None,
    entity_default: EntityDefault = False,
    add_config: Annotated[list[str], "A=B,C=[D,E]", "Settings to set; a list stands in brackets."]
    | None = None,
    delete_config: Annotated[str, "A,C", "Settings to delete, so that defaults hold again."]
    | None = None,
) -> None:
    """Alter settings, of a topic or of the cluster."""
    is_of_cluster = _is_of_cluster(topic, include, entity_type, is_default=entity_default)
    if not is_of_cluster and topic is None and include is None:
        raise InvalidRequestError(
            "--entity-name is missing: name the topic whose settings to alter"
        )
    changes = changed_settings(add_config, delete_config)
    if not changes:
        raise InvalidRequestError("there is nothing to alter: give --add-config or --delete-config")
    names = [] if is_of_cluster else named_topics(session.cluster.image, topic, include)
    if is_of_cluster:
        session.cluster.alter_cluster_configs(changes)
    else:
        session.do_all([methodcaller("alter_topic_configs", name, changes) for name in names])
    session.conclude({"topics": names, "configs": dict(changes)})


def changed_settings(added: Sequence[str] | None, deleted: str | None) -> dict[str, str | None]:
    """Return the changes that kafka-configs' options ask for; None deletes a setting."""
    lines = [part for each in added or () for part in _BETWEEN_SETTINGS.split(each)]
    changes: dict[str, str | None] = {}
    for name, value in pairs(lines, "--add-config").items():
        changes[name] = value.removeprefix("[").removesuffix("]")
    for name in deleted.split(",") if deleted else ():
        if changes.setdefault(name.strip(), None) is not None:
            raise InvalidRequestError(
                f"setting {name.strip()!r} can't be set and deleted at once: choose one"
            )
    return changes


configs = verb(
    "Show or alter settings of topics, or of the cluster.",
    Action(describe, "as_of"),
    Action(alter, *CHANGING),
)

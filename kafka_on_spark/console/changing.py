"""Changes that a page may ask for: each is decided and shown first, and committed as it was shown.

What decides without a commit is given by who wires the console. Between the last decision and the
commit others may commit: then the commit's own decision counts, as for every command.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
)

log = logging.getLogger(__name__)

Change = Callable[[Cluster], object]
"""A change, given the cluster or its dry run."""

Shown = list[list[str]]
"""Records that would be committed, as people read them: the kind, the cause, and what it says."""

Decide = Callable[[Cluster, Change], Shown]
"""Decides a change and commits nothing."""

Arguments = Mapping[str, Any]


class Changes:
    """Decides changes to `cluster` by `decide`, and makes them."""

    def __init__(self, cluster: Cluster, decide: Decide) -> None:
        self._cluster = cluster
        self._decide = decide

    def answer(self, asked: object) -> dict[str, Any]:
        """Return what would be committed; or, if that is what the page has `shown`, commit it.

        `outcome` says what came of it: "shown", "different" (it would be something else by now),
        "committed", "refused" (nothing is committed), or "unknown" (perhaps it is).
        """
        is_partly_done = False
        try:
            kind, arguments, shown = _parts(asked)
            words, change = KINDS[kind](arguments)
            rows = self._decide(self._cluster, change)
            if shown is None or rows != shown:
                outcome = "shown" if shown is None else "different"
                return {"outcome": outcome, "words": words, "rows": rows}
            log.info("is told to commit: %s", words)
            is_partly_done = kind in IN_STEPS
            change(self._cluster)
        except CommitOutcomeUnknownError as error:
            return {"outcome": "unknown", "sentence": str(error)}
        except KafkaOnSparkError as error:
            outcome = "unknown" if is_partly_done else "refused"
            return {"outcome": outcome, "sentence": str(error)}
        return {"outcome": "committed", "words": words}


def _parts(asked: object) -> tuple[str, Arguments, Shown | None]:
    """Return the kind, the arguments and what was shown.

    Raises:
        InvalidRequestError: It is no such request.
    """
    if not isinstance(asked, dict) or not isinstance(asked.get("arguments"), dict):
        raise InvalidRequestError("a change has a kind and arguments")
    kind = str(asked.get("kind"))
    if kind not in KINDS:
        raise InvalidRequestError(f"there is no change of the kind {kind!r}")
    shown = asked.get("shown")
    if shown is not None and not isinstance(shown, list):
        raise InvalidRequestError("what was shown is a list of records")
    return kind, asked["arguments"], shown


def _given(arguments: Arguments, name: str, kind: type, what: str) -> Any:
    value = arguments.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequestError(f"{name} can't be {value!r}: give {what}")
    return value


def _text(arguments: Arguments, name: str) -> str:
    text: str = _given(arguments, name, str, "a text")
    return text


def _number(arguments: Arguments, name: str) -> int:
    number: int = _given(arguments, name, int, "a whole number")
    return number


def _partition(arguments: Arguments) -> tuple[str, int]:
    return _text(arguments, "topic"), _number(arguments, "partition")


def _drain(arguments: Arguments) -> tuple[str, Change]:
    broker = _number(arguments, "broker")
    return f"drain broker {broker}", lambda cluster: cluster.drain_broker(broker)


def _resume(arguments: Arguments) -> tuple[str, Change]:
    broker = _number(arguments, "broker")
    return f"resume broker {broker}", lambda cluster: cluster.resume_broker(broker)


def _elect(arguments: Arguments) -> tuple[str, Change]:
    return (
        "elect preferred leaders of all partitions",
        lambda cluster: cluster.elect_leaders("preferred"),
    )


def _reassign(arguments: Arguments) -> tuple[str, Change]:
    name = _partition(arguments)
    replicas = _given(arguments, "replicas", list, "a list of broker ids")
    return (
        f"move {name[0]}-{name[1]} to brokers {' '.join(map(str, replicas))}",
        lambda cluster: cluster.reassign({name: _numbers(replicas)}),
    )


def _numbers(given: Sequence[Any]) -> list[int]:
    return [_number({"broker": each}, "broker") for each in given]


def _cancel(arguments: Arguments) -> tuple[str, Change]:
    name = _partition(arguments)
    return (
        f"cancel the move of {name[0]}-{name[1]}",
        lambda cluster: cluster.cancel_reassignment([name]),
    )


def _configure(arguments: Arguments) -> tuple[str, Change]:
    topic, name = _text(arguments, "topic"), _text(arguments, "name")
    value = None if arguments.get("value") is None else _text(arguments, "value")
    words = f"set {name} of {topic} to {value}" if value is not None else f"unset {name} of {topic}"
    return words, lambda cluster: cluster.alter_topic_configs(topic, {name: value})


def _delete_topic(arguments: Arguments) -> tuple[str, Change]:
    topic = _text(arguments, "topic")
    return (
        f"delete topic {topic} with all its records",
        lambda cluster: cluster.delete_topic(topic),
    )


def _set_offset(arguments: Arguments) -> tuple[str, Change]:
    group, name = _text(arguments, "group"), _partition(arguments)
    offset = _number(arguments, "offset")
    return (
        f"set group {group} to offset {offset} of {name[0]}-{name[1]}",
        lambda cluster: cluster.alter_group_offsets(group, {name: offset}),
    )


def _delete_group(arguments: Arguments) -> tuple[str, Change]:
    group = _text(arguments, "group")
    return f"delete all offsets of group {group}", lambda cluster: cluster.delete_group(group)


KINDS: Final[Mapping[str, Callable[[Arguments], tuple[str, Change]]]] = {
    "drain-broker": _drain,
    "resume-broker": _resume,
    "elect-leaders": _elect,
    "reassign": _reassign,
    "cancel-reassignment": _cancel,
    "configure-topic": _configure,
    "delete-topic": _delete_topic,
    "set-group-offset": _set_offset,
    "delete-group": _delete_group,
}
"""Each returns a change in words and as a call, or raises InvalidRequestError. What is decided by
lot, as the place of a new partition, is none of them: it would be another each time."""

IN_STEPS: Final = frozenset({"drain-broker"})
"""Changes of several commits: of one that fails nobody can say that nothing is committed."""

"""Settings: Kafka's names, types and defaults, and how the layers of them combine.

A setting comes from the defaults here, then ``conf/cluster.toml``, then the cluster's and the
topic's ConfigRecords, then the call; the last one wins. Values are texts, as in Kafka, and are
parsed where they are used, so that a topic's description shows what was given.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from kafka_on_spark.base.errors import InvalidConfigError, InvalidRequiredAcksError
from kafka_on_spark.base.ids import check_mapping, whole_number

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

Value = int | float | bool | str


def integer(low: int, high: int = LONG_MAX) -> Callable[[str], int]:
    """Return the parser of a number. Source: ConfigDef.parseType, LONG and (to 2^31-1) INT."""

    def parse(text: str) -> int:
        try:
            value = whole_number(text.strip())
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return parse


def ratio(text: str) -> float:
    """Return a part of one; a ValueError says what is allowed, as of all parsers here."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def boolean(text: str) -> bool:
    """Return a truth value. Source: ConfigDef.parseType, BOOLEAN."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("true or false")
    return word == "true"


def list_of(*allowed: str) -> Callable[[str], str]:
    """Return the parser of some of `allowed`, in any order. Source: ConfigDef.ValidList."""

    def parse(text: str) -> str:
        words = [word.strip() for word in text.split(",")]
        if not set(words) <= set(allowed) or len(set(words)) != len(words):
            raise ValueError(f"{' or '.join(allowed)}, or both with a comma between")
        return ",".join(words)

    return parse


def one_of(*allowed: str, reason: str = "") -> Callable[[str], str]:
    """Return the parser of one of `allowed`. Source: ConfigDef.ValidString. `reason`: why another
    value of Kafka's can't be obeyed. Such a one is a number, a flag or a codec: blanks around it
    and its case say nothing."""
    words = " or ".join(allowed) + (reason and f": {reason}")

    def parse(text: str) -> str:
        given = text.strip().lower() if reason else text
        if given not in allowed:
            raise ValueError(words)
        return given

    return parse


_THROTTLED: Final = re.compile(r"\*|((0|[1-9]\d*):(0|[1-9]\d*)(,(?!$)|$))*")


def replica_list(text: str) -> str:
    """Return a list of throttled replicas. Source: ThrottledReplicaListValidator."""
    if _THROTTLED.fullmatch(text) is None:
        raise ValueError("'*' for all replicas, or partition:broker pairs as in '0:1,0:2'")
    return text


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        default: Kafka's default, except where a comment says why not.
        parse: Turns the text into a value, or raises ValueError saying what is allowed.
        is_topic_setting: A topic may override it.
    """

    default: str
    parse: Callable[[str], Value]
    is_topic_setting: bool = False


_NO_INDEX: Final = "there are no index files, since the Delta log knows each segment's offsets"
_NOT_PREALLOCATED: Final = "segments are written whole, never grown"
_DAY_MS: Final = 24 * 60 * 60 * 1000
_HOUR_MS: Final = 60 * 60 * 1000

SETTINGS: Final[Mapping[str, Setting]] = {
    # Topics (Kafka's TopicConfig and LogConfig).
    "cleanup.policy": Setting("delete", list_of("delete", "compact"), True),
    # Kafka's default is a minute, which is all that a query over a view has here: Spark does not
    # plan it again. An hour at most: a table remembers what it has removed for twice the delay that
    # it was made with, and for ten minutes more than it at least.
    "file.delete.delay.ms": Setting("3600000", integer(0, _HOUR_MS), True),
    # Ours: until this time (ms since 1970 UTC) nothing is deleted, merged or compacted, so that a
    # copy of the roots is whole. A time more than a day ahead holds nothing.
    "delete.hold.until.ms": Setting("0", integer(0)),
    # Ours: files of a partition's current leader epoch that no log names are never deleted, for an
    # append under way may name them. Above so many bytes a new epoch begins, with the same leader.
    "orphan.bytes.max": Setting("67108864", integer(0), True),
    "max.message.bytes": Setting("1048588", integer(0, INT_MAX), True),
    "message.timestamp.type": Setting("CreateTime", one_of("CreateTime", "LogAppendTime"), True),
    "min.insync.replicas": Setting("1", integer(1, INT_MAX), True),
    "retention.bytes": Setting("-1", integer(-1), True),
    "retention.ms": Setting(str(7 * _DAY_MS), integer(-1), True),
    "segment.bytes": Setting("1073741824", integer(1024 * 1024, INT_MAX), True),
    "unclean.leader.election.enable": Setting("false", boolean, True),
    # Replicas whose copying counts against the two rates below. Kafka's default names none, so
    # that a rate alone has no effect there; here a rate holds for all replicas by default.
    "follower.replication.throttled.replicas": Setting("*", replica_list, True),
    "leader.replication.throttled.replicas": Setting("*", replica_list, True),
    # Kafka leaves flushing to the system; here every batch is flushed by default.
    "flush.messages": Setting(
        "1",
        one_of(
            "1",
            str(LONG_MAX),
            reason="a batch is flushed before it counts, or flushing is left to the system",
        ),
        True,
    ),
    # Settings of topics of Kafka, to be moved over as they are; of some, one value has
    # an effect here.
    "compression.type": Setting(
        "producer",
        one_of(
            "producer",
            "zstd",
            reason="segments are Parquet files, and their columns are compressed by zstd",
        ),
        True,
    ),
    "delete.retention.ms": Setting(str(_DAY_MS), integer(0), True),
    "flush.ms": Setting(
        str(LONG_MAX),
        one_of(
            str(LONG_MAX),
            reason="nothing is flushed by time, but every batch before it counts"
            " (flush.messages=1)",
        ),
        True,
    ),
    "index.interval.bytes": Setting("4096", one_of("4096", reason=_NO_INDEX), True),
    "max.compaction.lag.ms": Setting(str(LONG_MAX), integer(1), True),
    "message.timestamp.after.max.ms": Setting("3600000", integer(0), True),
    "message.timestamp.before.max.ms": Setting(str(LONG_MAX), integer(0), True),
    "min.cleanable.dirty.ratio": Setting("0.5", ratio, True),
    "min.compaction.lag.ms": Setting("0", integer(0), True),
    "preallocate": Setting("false", one_of("false", reason=_NOT_PREALLOCATED), True),
    "segment.index.bytes": Setting("10485760", one_of("10485760", reason=_NO_INDEX), True),
    "segment.jitter.ms": Setting(
        "0",
        one_of(
            "0",
            reason="upkeep takes partitions one after the other, so their segments don't end"
            " together",
        ),
        True,
    ),
    "segment.ms": Setting(str(7 * _DAY_MS), integer(1), True),
    # The cluster (Kafka's broker and controller settings).
    # Ours: whether a waiting append may decide itself if no controller is active.
    "auto.controller": Setting("true", boolean),
    "broker.session.timeout.ms": Setting("9000", integer(1, INT_MAX)),
    "broker.heartbeat.interval.ms": Setting("2000", integer(1, INT_MAX)),
    "default.replication.factor": Setting("1", integer(1, INT_MAX)),
    "num.partitions": Setting("1", integer(1, INT_MAX)),
    "leader.imbalance.per.broker.percentage": Setting("10", integer(0, INT_MAX)),
    "replica.fetch.backoff.ms": Setting("1000", integer(0, INT_MAX)),
    "replica.fetch.max.bytes": Setting("1048576", integer(0, INT_MAX)),
    "replica.lag.time.max.ms": Setting("30000", integer(1)),
    "replica.lag.max.bytes": Setting("-1", integer(-1)),
    # How often a process looks at a compacted partition for what is due, and the memory that a task
    # takes for the keys of one; a log with more keys is compacted in several rounds.
    "log.cleaner.backoff.ms": Setting("15000", integer(0)),
    "log.cleaner.dedupe.buffer.size": Setting("134217728", integer(1024 * 1024)),
    # How often a process looks at a partition for what retention deletes.
    "log.retention.check.interval.ms": Setting("300000", integer(1)),
    # Bytes a second, of all tasks of a job together; the default is no limit.
    "follower.replication.throttled.rate": Setting(str(LONG_MAX), integer(1)),
    "leader.replication.throttled.rate": Setting(str(LONG_MAX), integer(1)),
    # Groups with members, which decide for each other: there is no coordinator.
    "group.consumer.assignors": Setting("uniform,range", list_of("uniform", "range")),
    "group.consumer.heartbeat.interval.ms": Setting("5000", integer(1, INT_MAX)),
    "group.consumer.max.size": Setting("200", integer(1, INT_MAX)),
    "group.consumer.session.timeout.ms": Setting("45000", integer(1, INT_MAX)),
    # Kafka counts from when a group's last member left; here offsets of a group without members
    # have a time each, which saving them again renews.
    "offsets.retention.minutes": Setting("10080", integer(1, INT_MAX)),
    # Kafka's 7 days of transactional.id.expiration.ms: ids that users choose come back, too, and a
    # query that runs once a day must find its own.
    "producer.id.expiration.ms": Setting(str(7 * _DAY_MS), integer(1, INT_MAX)),
    # The call (Kafka's producer).
    "delivery.timeout.ms": Setting("120000", integer(0, INT_MAX)),
    # Ours: how long after a replica was found bad the same process inspects it again: longer than a
    # network mount keeps attributes.
    "replica.verdict.delay.ms": Setting("5000", integer(0, INT_MAX)),
    # Ours: in what time rounds inspect every replica, and the part of a core that this may take.
    "replica.sweep.interval.ms": Setting("600000", integer(1)),
    "replica.sweep.share": Setting("0.1", ratio),
    # Ours: how often a process visits a partition that changes for its upkeep, and the part of a
    # core that this may take; 0: none, all is left to `maintain`.
    "log.cleaner.interval.ms": Setting("60000", integer(1)),
    "log.cleaner.share": Setting("0.25", ratio),
    # Ours: how many of the newest batches of a partition are not merged. Whoever appended them may
    # still ask whether they stand, which costs the reading of a file once they are merged.
    "merge.min.lag.batches": Setting("10", integer(0, INT_MAX)),
    # Bytes a second that upkeep reads and rewrites, of all tasks of a job together.
    "log.cleaner.io.max.bytes.per.second": Setting(str(LONG_MAX), integer(1)),
    # Ours: how long a running stream waits for a metadata root that does not answer.
    "metadata.away.timeout.ms": Setting("300000", integer(0)),
    # Ours: so far after the metadata root's time a commit or an append may be, by its process's
    # clock. Clocks that are kept right differ by less, and stores tell whole seconds.
    "clock.ahead.max.ms": Setting("60000", integer(0)),
    # Kafka's 7 days would end `as_of` and the history for those who never heard of the setting;
    # -1: kept for ever.
    "metadata.max.retention.ms": Setting("-1", integer(-1)),
    # The metadata quorum, with Kafka's defaults. A process that has not read them yet takes these.
    "controller.quorum.fetch.timeout.ms": Setting("2000", integer(1, INT_MAX)),
    "controller.quorum.election.timeout.ms": Setting("1000", integer(1, INT_MAX)),
    "controller.quorum.election.backoff.max.ms": Setting("1000", integer(0, INT_MAX)),
    # Ours: how long a controller's lease lasts without a renewal. For liveness only.
    "controller.lease.ms": Setting("10000", integer(1)),
}


def check_settings(given: Mapping[str, object], *, topic_only: bool) -> dict[str, str]:
    """Return `given` as text, checked by name and value.

    Raises:
        InvalidConfigError: It is no mapping, a name is unknown (the nearest known one is
            named) or is not a topic's, or a value is not allowed.
    """
    check_mapping(given, "configs", "settings and their values", InvalidConfigError)
    checked = {}
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        setting = SETTINGS.get(name)
        if setting is None:
            raise InvalidConfigError(_refusal(str(name), topic_only))
        if topic_only and not setting.is_topic_setting:
            raise InvalidConfigError(
                f"setting {name!r} belongs to the cluster, not to a topic: alter the"
                " cluster's settings, or set it when the cluster is made"
            )
        if value is None:
            raise InvalidConfigError(
                f"setting {name!r} can't be none: it takes a value, or leave it out"
            )
        _parse(name, setting, text)
        checked[name] = text
    return checked


def check_together(settings: "Settings", whose: str) -> None:
    """Check the settings that bound each other, as they hold for a topic or for the cluster.

    Source: LogConfig.validateValues.

    Raises:
        InvalidConfigError: Records would have to be compacted before they may be; or members would
            be fenced between two heartbeats.
    """
    names = ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms")
    interval_ms, session_ms = map(settings.integer, names)
    if interval_ms >= session_ms:
        raise InvalidConfigError(
            f"setting {names[0]!r} of {whose} can't be {interval_ms} while its {names[1]!r} is"
            f" {session_ms}: give less, such as a third of it"
        )
    lag_min, lag_max = map(settings.integer, ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if lag_min > lag_max:
        raise InvalidConfigError(
            f"setting 'min.compaction.lag.ms' of {whose} can't be {lag_min} while its"
            f" 'max.compaction.lag.ms' is {lag_max}: records would have to be compacted before they"
            " may be; give the first at most the value of the second"
        )


def leaves_auto_controller(given: Mapping[str, object]) -> bool:
    """Return whether an append's own settings leave auto.controller as the cluster has it.

    Raises:
        InvalidConfigError: Another setting is given, or another value than false.
    """
    if not given:
        return True
    checked = check_settings(given, topic_only=False)
    other = next((name for name in checked if name != "auto.controller"), None)
    if other is not None:
        raise InvalidConfigError(
            f"setting {other!r} can't be given to an append, which takes 'auto.controller' alone:"
            " alter the topic's or the cluster's settings"
        )
    if checked and SETTINGS["auto.controller"].parse(checked["auto.controller"]):
        raise InvalidConfigError(
            "setting 'auto.controller' can't be switched on by an append, only off ('false'): alter"
            " the cluster's"
        )
    return not checked


NAMED_ELSE: Final[Mapping[str, str]] = {
    "log.flush.interval.ms": "flush.ms",
    "log.flush.scheduler.interval.ms": "flush.ms",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.retention.minutes": "retention.ms",
    "log.roll.hours": "segment.ms",
    "log.roll.ms": "segment.ms",
}
"""Broker settings of Kafka's whose name here is not the nearest one (ServerTopicConfigSynonyms)."""


def _refusal(name: str, topic_only: bool) -> str:
    """Return the sentence that refuses a name of no setting."""
    near = [each for each in SETTINGS if SETTINGS[each].is_topic_setting or not topic_only]
    if name in NAMED_ELSE:
        return f"unknown setting {name!r}: did you mean {NAMED_ELSE[name]!r}?"
    return unknown_name("setting", name, near)


def read_cluster_toml() -> dict[str, str]:
    """Return the settings of ``conf/cluster.toml`` in the checkout, or as installed.

    Raises:
        InvalidConfigError: A name is unknown or a value is not allowed.
    """
    package = Path(__file__).parents[1]
    for folder in (package.parent / "conf", package / "conf"):
        file = folder / "cluster.toml"
        if file.is_file():
            given = tomllib.loads(file.read_text(encoding="utf-8")).get("cluster", {})
            return check_settings(given, topic_only=False)
    return {}


def cluster_settings(given: Mapping[str, object] | None) -> dict[str, str]:
    """Return a new cluster's settings: `given`, over those of ``conf/cluster.toml``.

    Raises:
        InvalidConfigError: A name is unknown, or a value is not allowed or contradicts another.
    """
    mine = {} if given is None else check_settings(given, topic_only=False)
    settings = {**read_cluster_toml(), **mine}
    check_together(Settings((settings,)), "the cluster")
    return settings


def unknown_name(kind: str, name: object, allowed: list[str]) -> str:
    """Return the sentence that refuses an unknown name, with the nearest known one."""
    nearest = get_close_matches(str(name), allowed, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(sorted(allowed))}"
    return f"unknown {kind} {name!r}: {hint}"


def _parse(name: str, setting: Setting, text: str) -> Value:
    try:
        return setting.parse(text)
    except ValueError as error:
        raise InvalidConfigError(f"setting {name!r} can't be {text!r}: it takes {error}") from None


@lru_cache(maxsize=4096)
def _value(name: str, text: str) -> Value:
    """Return what a setting's text says: decisions ask for the same few again and again."""
    return _parse(name, SETTINGS[name], text)


HOLD: Final = "delete.hold.until.ms"
HOLD_MS_MAX: Final = _DAY_MS
"""For how long deletes may be held at once: disks fill up meanwhile."""


def is_held(until_ms: int, now_ms: int) -> bool:
    """Whether deletes are held up to a time. A wrong clock costs the copy, which is checked when it
    is forked, or space; it decides nothing else."""
    return 0 < until_ms - now_ms <= HOLD_MS_MAX


@dataclass(frozen=True)
class Settings:
    """Settings in layers: the nearest layer that names a setting decides.

    Attributes:
        layers: Texts by name, nearest first. A setting in no layer has its default.
    """

    layers: tuple[Mapping[str, str], ...] = ()

    def over(self, *nearer: Mapping[str, str]) -> "Settings":
        """Return these settings with `nearer` layers asked first."""
        return Settings((*nearer, *self.layers))

    def text(self, name: str) -> str:
        for layer in self.layers:
            if name in layer:
                return layer[name]
        return SETTINGS[name].default

    @cached_property
    def policies(self) -> list[str]:
        """What a topic's cleanup.policy has: "delete" if its records may be deleted, "compact"."""
        return [word.strip() for word in self.text("cleanup.policy").split(",")]

    @cached_property
    def is_flushed(self) -> bool:
        """Whether a commit to a replica is flushed before it counts (flush.messages=1)."""
        return self.text("flush.messages") == "1"

    @cached_property
    def delete_delay_ms(self) -> int:
        """How long the files that a replica removes stay (file.delete.delay.ms)."""
        return self.integer("file.delete.delay.ms")

    def holds_deletes(self, now_ms: int) -> bool:
        """Whether nothing is to be deleted now (delete.hold.until.ms)."""
        return is_held(self.integer("delete.hold.until.ms"), now_ms)

    def integer(self, name: str) -> int:
        value = _value(name, self.text(name))
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        value = _value(name, self.text(name))
        assert isinstance(value, float), name
        return value

    def boolean(self, name: str) -> bool:
        value = _value(name, self.text(name))
        assert isinstance(value, bool), name
        return value


ACKS: Final = ("all", "1", "0")


def check_acks(acks: object) -> str:
    """Return `acks` as text: "all", "1" or "0"; -1 means "all", as in Kafka."""
    text = {"-1": "all"}.get(str(acks), str(acks))
    if text not in ACKS:
        raise InvalidRequiredAcksError(f"acks can't be {acks!r}: it takes 'all', 1 or 0")
    return text

"""Which of Kafka's settings mean nothing here, each with the reason, and which have another name.

Whoever moves a cluster over gives the settings of its topics and brokers as they are. One that
nobody would obey is refused, and the error says why; a near name would be no help.
It is apart from the settings that hold (`config`), which know nothing of these.
"""

from collections.abc import Mapping
from typing import Final

_NO_SERVER: Final = "no server runs here: processes append and read on the roots themselves"
_STORAGE_GUARDS: Final = "the roots' storage says who may read and write: give the rights there"
_TASKS: Final = "tasks of Spark do this work, or threads of the process that asks for it"

WHY: Final[Mapping[str, tuple[str, ...]]] = {
    _NO_SERVER: (
        "advertised.listeners",
        "connections.max.idle.ms",
        "control.plane.listener.name",
        "controlled.shutdown.*",
        "controller.listener.names",
        "controller.socket.timeout.ms",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "fetch.max.bytes",
        "fetch.purgatory.purge.interval.requests",
        "inter.broker.*",
        "listener.*",
        "listeners",
        "log.initial.task.delay.ms",
        "max.connection.creation.rate",
        "max.connections*",
        "max.incremental.fetch.session.cache.slots",
        "max.request.partition.size.limit",
        "num.network.threads",
        "num.io.threads",
        "process.roles",
        "producer.purgatory.purge.interval.requests",
        "queued.max.*",
        "replica.socket.*",
        "request.timeout.ms",
        "server.max.startup.time.ms",
        "socket.*",
        "unstable.*",
    ),
    _STORAGE_GUARDS: (
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "delegation.token.*",
        "password.encoder.*",
        "principal.builder.class",
        "sasl.*",
        "security.*",
        "ssl.*",
        "super.users",
    ),
    "there are no quotas: no server stands between a client and the roots": (
        "alter.log.dirs.replication.quota.*",
        "client.quota.callback.class",
        "controller.quota.*",
        "quota.*",
        "replication.quota.*",
    ),
    _TASKS: (
        "background.threads",
        "log.cleaner.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
    ),
    "a topic's cleanup.policy says whether it is compacted; log.cleaner.share=0 leaves all upkeep"
    " to `maintain`": ("log.cleaner.enable",),
    "files are rewritten whole, and keys take what log.cleaner.dedupe.buffer.size gives": (
        "log.cleaner.io.buffer.*",
    ),
    "no records move to a second store: all segments of a replica are on its broker's root, which"
    " may be an object store": (
        "local.retention.*",
        "log.local.retention.*",
        "remote.*",
    ),
    "segments are Parquet files, and their columns are compressed by zstd at a level of its own": (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    ),
    "there is one format of records, and no older client to convert them for": (
        "log.message.downconversion.enable",
        "log.message.format.version",
        "message.downconversion.enable",
        "message.format.version",
    ),
    "Kafka 4.0 has it no more: message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    " bound a record's timestamp": (
        "log.message.timestamp.difference.max.ms",
        "message.timestamp.difference.max.ms",
    ),
    "a broker is given its id, root and rack when it is registered": (
        "broker.id",
        "broker.id.generation.enable",
        "broker.rack",
        "initial.broker.registration.timeout.ms",
        "log.dir",
        "log.dir.failure.timeout.ms",
        "log.dirs",
        "node.id",
        "replica.alter.log.dirs.*",
        "reserved.broker.max.id",
    ),
    "the metadata log is a Delta table on each metadata root, and its rows are kept for ever: they"
    " are the cluster's history": ("metadata.log.*", "metadata.max.*"),
    "the voters stand in the metadata log, and a process asks their roots itself": (
        "controller.quorum.append.linger.ms",
        "controller.quorum.auto.join.enable",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.*",
        "controller.quorum.voters",
    ),
    "there is no ZooKeeper": ("zookeeper.*",),
    "there is no coordinator: members decide themselves (group.consumer.*), and a group's offsets"
    " stand in the metadata log": (
        "group.consumer.assignment.*",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.migration.policy",
        "group.consumer.min.*",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.*",
        "group.initial.rebalance.delay.ms",
        "group.max.*",
        "group.min.*",
        "group.share.*",
        "group.streams.*",
        "offset.metadata.max.bytes",
        "offsets.commit.*",
        "offsets.load.buffer.size",
        "offsets.topic.*",
        "share.coordinator.*",
        "share.fetch.*",
    ),
    "there are no transactions in this version": (
        "transaction.*",
        "transactional.id.expiration.ms",
    ),
    "each pass of the controller looks for it": (
        "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
        "offsets.retention.check.interval.ms",
        "producer.id.expiration.check.interval.ms",
        "unclean.leader.election.interval.ms",
    ),
    "offsets stand in the logs themselves, and in no file beside them": (
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ),
    "a round of replication copies what is there, and waits for nothing": (
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
    ),
    "a reader names its rack itself (option client.rack)": ("replica.selector.class",),
    "a topic is created and deleted only by who asks for it": (
        "auto.create.topics.enable",
        "delete.topic.enable",
    ),
    "no class of Java's runs here": (
        "alter.config.policy.class.name",
        "config.providers",
        "create.topic.policy.class.name",
    ),
    "metrics are asked for (`metrics`), and reported to nobody": (
        "auto.include.jmx.reporter",
        "client.metrics.*",
        "controller.performance.*",
        "kafka.metrics.*",
        "metric.reporters",
        "metrics.*",
        "telemetry.*",
    ),
}
"""The reason, and the names that it holds for; one that ends in `*` is of all that begin so."""

NAMED_ELSE: Final[Mapping[str, str]] = {
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.flush.scheduler.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.preallocate": "preallocate",
    "log.retention.bytes": "retention.bytes",
    "log.retention.hours": "retention.ms",
    "log.retention.minutes": "retention.ms",
    "log.retention.ms": "retention.ms",
    "log.roll.hours": "segment.ms",
    "log.roll.jitter.hours": "segment.jitter.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
}
"""What Kafka calls a topic's default among a broker's settings, and its name here.

Source: ServerTopicConfigSynonyms.
"""

_REASONS: Final = {name: reason for reason, names in WHY.items() for name in names}


def why_refused(name: str) -> str | None:
    """Return the sentence that refuses a setting of Kafka's; None: none of these has the name."""
    if name in NAMED_ELSE:
        return (
            f"setting {name!r} of Kafka's brokers is {NAMED_ELSE[name]!r} here, the cluster's as a"
            " topic's: give that one"
        )
    reason = _reason(name)
    if reason is None:
        return None
    return f"setting {name!r} of Kafka's means nothing here: {reason}"


def _reason(name: str) -> str | None:
    if name in _REASONS:
        return _REASONS[name]
    for pattern, reason in _REASONS.items():
        if pattern.endswith("*") and name.startswith(pattern[:-1]):
            return reason
    return None

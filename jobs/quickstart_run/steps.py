"""The steps of the quickstart. Each step asks the cluster what is left to do.

So an interrupted run continues where it was: the cluster finds repeated appends by producer and
sequence.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from jobs.quickstart_run.checks import check_offsets, check_records, check_seen, check_voters
from jobs.quickstart_run.console import Output
from jobs.quickstart_run.flights import appends_of, flight_records, read_flights
from jobs.quickstart_run.run_folder import QuickstartError, RunFolder
from jobs.quickstart_run.stream import Stream, seen_count, seen_records
from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterNotFoundError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.quorum.description import QuorumDescription
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.descriptions import PartitionDescription
from kafka_on_spark.observe.history import HistoryEntry
from kafka_on_spark.observe.pictures import timeline_picture
from kafka_on_spark.observe.replicas import compare_replicas

TOPIC: Final = "flights"
PRODUCER_ID: Final = "quickstart"
REPLICATION_FACTOR: Final = 3
LOST_BROKER: Final = BrokerId(1)
CONFIGS: Final = {"min.insync.replicas": "2", "retention.ms": "-1"}
ROUNDS_MAX: Final = 20
"""Rounds of replication until a broker has caught up; one is enough if nothing is appended."""

PASSES_MAX: Final = 5
"""Passes of the controller until a broker is judged; one is enough on a machine that is not so busy
that a pass probes a root too seldom to say."""


@dataclass(frozen=True, slots=True)
class Run:
    """The session, folder, cluster and output of a run."""

    spark: SparkSession
    folder: RunFolder
    cluster: Cluster
    output: Output

    @property
    def committed_count(self) -> int:
        """The number of committed records: how far the run has come."""
        offsets = self.cluster.offsets(TOPIC).values()
        return sum(each.high_watermark for each in offsets)

    @property
    def is_fenced(self) -> bool:
        """Whether the lost broker is fenced."""
        return self.cluster.image.brokers[LOST_BROKER].state is BrokerState.FENCED

    def partitions(self) -> tuple[PartitionDescription, ...]:
        """Return the topic's partitions."""
        return self.cluster.describe_topic(TOPIC).partitions

    def control_until(self, *, is_fenced: bool) -> None:
        """Run passes of the controller until the lost broker is fenced, or is not."""
        for _ in range(PASSES_MAX):
            if self.is_fenced == is_fenced:
                break
            self.cluster.run_controller()


def open_cluster(spark: SparkSession, folder: RunFolder, output: Output) -> Cluster:
    """Return the folder's cluster with its topic; create what does not exist."""
    cluster = _existing_cluster(spark, folder)
    plan = folder.plan
    if cluster is None:
        roots = {number: folder.broker_root(number) for number in range(1, plan.brokers + 1)}
        cluster = Cluster.create(folder.metadata_roots, roots, spark=spark)
    if TOPIC not in cluster.image.topic_ids:
        cluster.create_topic(
            TOPIC,
            partitions=plan.partitions,
            replication_factor=REPLICATION_FACTOR,
            configs=CONFIGS,
        )
    settings = ", ".join(f"{name} {value}" for name, value in CONFIGS.items())
    on_voters = "" if plan.voters == 1 else f" on {plan.voters} voters"
    output.say(
        f"metadata log{on_voters} and brokers 1 to {plan.brokers}, a folder each, in"
        f" {folder.base}\n"
        f"topic {TOPIC}: {plan.partitions} partitions, replication factor {REPLICATION_FACTOR},"
        f" {settings}"
    )
    return cluster


def _existing_cluster(spark: SparkSession, folder: RunFolder) -> Cluster | None:
    try:
        cluster = Cluster.open(folder.cluster_url, spark)
    except ClusterNotFoundError:
        return None
    if cluster.image.cluster_id is None:  # its creation was interrupted, and is repeated
        cluster.close()
        return None
    return cluster


def begin_stream(run: Run) -> Stream | None:
    """Start the stream, unless it has seen everything."""
    if seen_count(run.folder.seen) == run.folder.plan.rows:
        return None
    stream = Stream(run.spark, run.folder, TOPIC)
    run.output.say("a streaming query has started to read it, from the earliest offsets on")
    return stream


def append_half(run: Run, half: int) -> None:
    """Append a half (0 or 1) of the flights, acks=all; a committed append is not repeated."""
    appends = list(enumerate(appends_of(run.folder.plan.rows)))
    middle = len(appends) // 2
    mine = appends[:middle] if half == 0 else appends[middle:]
    begin, committed = mine[0][1].start, run.committed_count
    with run.output.progress(mine[-1][1].stop - begin) as advance:
        for sequence, rows in mine:
            note = " (committed before)"
            if rows.stop > committed:
                records = flight_records(run.spark, rows)
                result = run.cluster.append(
                    TOPIC, records, producer_id=PRODUCER_ID, sequence=sequence
                )
                note = note if result.is_duplicate else ""
            if rows:
                advance(rows.stop - begin, note)


def show_topic(run: Run) -> None:
    """Print leaders, ISRs and offsets, and how far the stream is."""
    run.output.table(
        {
            "partition": each.partition,
            "leader": "none" if each.leader is None else each.leader,
            "leader epoch": each.leader_epoch,
            "replicas": each.replicas,
            "ISR": each.isr,
            "high watermark": each.offsets.high_watermark,
        }
        for each in run.partitions()
    )
    run.output.say(
        f"{run.committed_count:,} records are committed, {seen_count(run.folder.seen):,} of them"
        " seen by the stream so far"
    )


def lose_disk(run: Run) -> None:
    """Take a broker's disk away, and run the controller."""
    folder, output = run.folder, run.output
    if run.committed_count == folder.plan.rows:
        output.say("this was done before: all records are committed")
        return
    led = [each.partition for each in run.partitions() if each.leader == LOST_BROKER]
    root = folder.broker_root(LOST_BROKER)
    if not folder.is_away(root):
        folder.take_away(root)
    output.say(f"broker {LOST_BROKER}'s root is moved away; it leads partitions {_listed(led)}")
    run.control_until(is_fenced=True)
    if not run.is_fenced:
        raise QuickstartError(f"the controller did not fence broker {LOST_BROKER}")
    changes = _latest_changes(run)
    left = [each for each in changes if LOST_BROKER not in each.isr]
    commits = sorted({each.time for each in left})
    output.say(
        f"the controller has fenced it: {left[0].cause}\n"
        f"{len(led)} leaderships moved and {len(left)} ISRs shrank, in {len(commits)} metadata"
        f" commit{'s' if len(commits) > 1 else ''}"
    )
    show_topic(run)


def lose_metadata_root(run: Run) -> None:
    """Take the metadata root away that leads the quorum; it never comes back."""
    folder, output = run.folder, run.output
    if folder.lost_metadata_root is not None:
        output.say(f"this was done before: {folder.lost_metadata_root} is away")
        return
    [leader] = [each.voter for each in run.cluster.describe_quorum().voters if each.leads]
    folder.take_away(leader.root)
    output.say(
        f"voter {leader.key.node_id}, which leads, has its root moved away; a reader that needs"
        " the metadata has another one elected"
    )
    _show_voters(output, run.cluster.describe_quorum())


def _show_voters(output: Output, quorum: QuorumDescription) -> None:
    output.table(
        {
            "voter": each.voter.key.node_id,
            "state": each.state or "lost",
            "log end": each.log_end_offset,
            "behind": each.lag,
            "metadata root": each.voter.root,
        }
        for each in quorum.voters
    )


def _latest_changes(run: Run) -> list[HistoryEntry]:
    latest = {each.partition: each for each in run.cluster.history(TOPIC)}
    return [latest[number] for number in sorted(latest)]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def give_disk_back(run: Run) -> None:
    """Give the disk back: the broker is unfenced, catches up, and leads its partitions again."""
    folder, output = run.folder, run.output
    root = folder.broker_root(LOST_BROKER)
    if folder.is_away(root):
        folder.give_back(root)
    elif not _check_partitions(run.partitions()):
        output.say("this was done before: the broker is in sync and leads its preferred partitions")
        return
    run.control_until(is_fenced=False)
    if run.is_fenced:
        raise QuickstartError(f"broker {LOST_BROKER} does not answer: is its folder complete?")
    output.say(f"broker {LOST_BROKER} answers again and is unfenced")
    _catch_up(run)
    run.cluster.run_controller()
    run.cluster.elect_leaders("preferred")
    led = [each.partition for each in run.partitions() if each.leader == LOST_BROKER]
    output.say(f"preferred leaders lead again: broker {LOST_BROKER} has partitions {_listed(led)}")
    show_topic(run)


def _catch_up(run: Run) -> None:
    truncated = copied = copied_bytes = rounds = 0
    for _ in range(ROUNDS_MAX):
        report = run.cluster.replicate([TOPIC])
        rounds += 1
        truncated += report.truncated_records
        copied += report.copied_records
        copied_bytes += report.copied_bytes
        if report.is_caught_up:
            break
    else:
        reason = "; ".join(report.failures) or "replicas are still behind"
        raise QuickstartError(f"replication did not end in {ROUNDS_MAX} rounds: {reason}")
    run.output.say(
        f"its replicas were cut by {truncated:,} records, fetched {copied:,} records"
        f" ({copied_bytes / 1e6:.1f} MB) in {rounds} round{'s' if rounds > 1 else ''},"
        " and are in the ISRs again"
    )


def wait_for_stream(run: Run, stream: Stream | None) -> None:
    """Wait until the stream has seen all committed records; print its progress."""
    if stream is None:
        run.output.say("the stream has seen all records before")
        return
    count = run.committed_count
    with run.output.progress(count) as advance:
        stream.wait(count, lambda seen: advance(seen, ", seen by the stream"))


def verify(run: Run) -> list[str]:
    """Check everything against the tables, by a newly opened cluster; return the findings."""
    with Cluster.open(run.folder.cluster_url) as cluster:
        image = cluster.image
        flights = read_flights(run.folder.plan.rows)
        committed = cluster.read(TOPIC)
        watermarks = {
            number: int(each.high_watermark) for number, each in cluster.offsets(TOPIC).items()
        }
        comparisons = compare_replicas(image, TOPIC, is_deep=True)
        quorum = cluster.describe_quorum()
        seen = seen_records(run.folder.seen)
    replica_count = sum(each.replica_count for each in comparisons)
    read_bytes = sum(each.read_bytes for each in comparisons)
    checks = {
        f"each of the {flights.num_rows:,} flights is committed exactly once, unchanged, and each"
        " key's in order": check_records(flights, committed),
        f"the offsets of all {len(watermarks)} partitions have no gap": check_offsets(
            committed, watermarks
        ),
        f"{replica_count} replicas are equal below the high watermarks, byte for byte"
        f" ({read_bytes / 1e6:.1f} MB)": [
            difference for each in comparisons for difference in each.differences
        ],
        f"the stream has seen each of {seen.num_rows:,} records once, each partition in"
        " order": check_seen(committed, seen),
        "every replica is in sync, and preferred leaders lead": _check_partitions(run.partitions()),
    }
    lost = run.folder.lost_metadata_root
    if lost is not None:
        name = f"one voter is lost, at {lost}, and each of the others has the whole metadata log"
        checks[name] = check_voters(quorum, lost)
        _show_voters(run.output, quorum)
    for name, problems in checks.items():
        run.output.say("\n".join(f"WRONG: {each}" for each in problems) or f"checked: {name}")
    return [problem for problems in checks.values() for problem in problems]


def _check_partitions(partitions: tuple[PartitionDescription, ...]) -> list[str]:
    return [
        f"partition {each.partition} is led by {each.leader} with ISR {each.isr}"
        for each in partitions
        if each.leader != each.replicas[0] or set(each.isr) != set(each.replicas)
    ]


def show_history(run: Run) -> None:
    """Print one partition's history, and draw those of all partitions."""
    partitions = run.partitions()
    preferred = [each.partition for each in partitions if each.replicas[0] == LOST_BROKER]
    number = preferred[0] if preferred else 0
    run.output.say(f"\nISR history of {TOPIC}-{number} (UTC):")
    run.output.table(
        {
            "time": f"{each.time:%H:%M:%S.%f}"[:-3],
            "leader": "none" if each.leader is None else each.leader,
            "leader epoch": each.leader_epoch,
            "ISR": each.isr,
            "cause": each.cause,
        }
        for each in run.cluster.history(TOPIC, number)
    )
    try:
        events = run.cluster.broker_history()
        timeline_picture(run.cluster.history(TOPIC), events=events).save(run.folder.picture)
    except ImportError as error:
        run.output.say(f"no picture: {error}")

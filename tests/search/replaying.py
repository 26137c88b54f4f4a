"""A process of the search: production code that is run again from its start for each answer it gets.

Python can neither copy a running generator or greenlet nor hash one, so a process is not kept as
one. What a process is at a port call is a function of what it was started with and of the answers
that it got, its *history*: the code between two port calls is deterministic. So the history is the
process; to take a step, the production code is run from its start with the recorded answers, up to
the first call that has none. Two processes with one history are one, which is what makes states
of the search comparable, and each history is run once, however many states it occurs in.

A run goes on past a call without an answer if that can be guessed: a row of reads takes one run, not one
each. What it comes to is kept by the answers that led there, so a wrong guess costs time only.

A `map` (the appender's threads, the tasks of a round) gives each call a *lane* of its own: all
lanes are before a port call at once, and any may go on next. A lane that has ended is replaced by
its result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from weakref import proxy

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from tests.builders import KEY, NOW_MS, partition_map

Lane = tuple[int, ...]
"""() is the process itself, (n, k) the k-th call of its n-th map."""

MAIN: Final[Lane] = ()
STAMP: Final = Stamp(time_ms=NOW_MS)

GUESSES_MAX: Final = 8
"""So many answers in a row are guessed: more than any process reads between two effects."""


@dataclass(frozen=True, slots=True)
class Call:
    """A port call that waits for its answer.

    Attributes:
        operation: load, commit, make (of a replica); read, append (of the metadata log).
        address: Of the replica.
        handle: Of a commit: the answer, in its lane, whose state it was decided on.
        content: Of a commit, its LogChange; of an append, its records.
        partition_epoch: Of the process's own image, by its own count.
    """

    operation: str
    address: ReplicaAddress | None = None
    handle: int | None = None
    content: Any = None
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Raised:
    error: type[KafkaOnSparkError]
    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    result: Any


class Log(NamedTuple):
    """An answer that is a replica's state: its number, since a state can't be hashed."""

    number: int


class News(NamedTuple):
    """An answer that is all that was committed to the metadata log since.

    Attributes:
        number: Of the image it leads to.
        partition_epoch: Of the partition in it, by the process's own count.
    """

    number: int
    partition_epoch: int


History = Mapping[Lane, Any]


class Waiting(BaseException):
    """The process stands before a call. No handler of the code under test may catch it."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.call = call


class AtMap(BaseException):
    """The process stands at a map of which not all lanes have ended.

    Attributes:
        number: How many maps came before.
        work: What each lane does.
        items: With what, by lane.
    """

    def __init__(self, number: int, work: Callable[[Any], Any], items: Sequence[Any]) -> None:
        super().__init__(number)
        self.number = number
        self.work = work
        self.items = items


class Numbers:
    """Replica states and images by number: equal ones have one number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.values: list[Any] = []

    def of(self, key: Any, value: Any) -> int:
        """Return the number of `value`, which `key` tells from others."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
        return number


class States(Numbers):
    """Replica states without their versions: which version is the newest is the search's to say."""

    def __init__(self) -> None:
        super().__init__()
        self._at_versions: dict[tuple[int, int], ReplicaState] = {}

    def number(self, state: ReplicaState) -> int:
        key = (
            state.identity,
            state.log_start_offset,
            state.log_end_offset,
            state.leader_epoch,
            state.batches,
            state.chain_before,
            tuple(sorted(state.producers.items(), key=lambda item: item[0])),
        )
        return self.of(key, replace(state, version=0))

    def at_version(self, number: int, version: int) -> ReplicaState:
        key = (number, version)
        if key not in self._at_versions:
            self._at_versions[key] = replace(self.values[number], version=version)
        return self._at_versions[key]


class Images(Numbers):
    """Images at one offset, their partition at one partition epoch: which process is behind is the search's
    to say."""

    def __init__(self) -> None:
        super().__init__()
        self._records: dict[News, tuple[Record, ...]] = {}

    def number(self, image: MetadataImage) -> int:
        states = tuple(
            (each.broker_id, each.broker_epoch, each.directory_id, each.state)
            for each in image.brokers.values()
        )
        return self.of((image.partition(KEY), states), image)

    def records_of(self, news: News) -> tuple[Record, ...]:
        """Return what a process reads that hears of an image."""
        known = self._records.get(news)
        if known is None:
            image = with_partition_epoch(self.values[news.number], news.partition_epoch)
            known = self._records[news] = tuple(snapshot_records(image))
        return known


def no_guess(call: Call, is_same_epoch: bool = False) -> Any:
    """Stop at the first call without an answer."""
    return None


class Process:
    """One run of a process up to its first call without an answer: its ports, and its metadata.

    `fresh_reads`: so many first reads of the metadata log find nothing new, since the process has
    been started with the newest image.

    Attributes:
        guess: Returns what a call may be answered, or None.
        passed: The answers before each call whose answer was guessed, and that call.
    """

    def __init__(
        self,
        states: States,
        images: Images,
        image: MetadataImage,
        history: History,
        *,
        late_ms: int = 0,
        fresh_reads: int = 0,
    ) -> None:
        self.states = states
        self.images = images
        self.fresh_reads = fresh_reads
        self.passed: list[tuple[tuple[Any, ...], Call]] = []
        self.guess: Callable[[Call], Any] = no_guess
        self._history = history
        self._lane: Lane = MAIN
        self._places: dict[Lane, int] = {}
        self._maps = 0
        self.clock = _Clock(late_ms)
        # Ports do not keep their process: no collector runs while thousands come and go.
        mine = proxy(self)
        self.replicas = _ReplicaStore(mine)
        self.segments = _SegmentStore()
        self.metadata = MetadataService(_MetadataLog(mine), self.clock, random=lambda: 0.0)
        self.metadata.image = image

    def ask(self, call: Call) -> tuple[Any, int]:
        """Return the answer to a call, and its place in its lane; stop if there is none yet."""
        answers = self.answers
        place = self._places.get(self._lane, 0)
        if place == len(answers):
            answers = self._with_guess(answers, call)
        self._places[self._lane] = place + 1
        answer = answers[place]
        if isinstance(answer, Raised):
            raise answer.error(answer.message)
        return answer, place

    @property
    def answers(self) -> tuple[Any, ...]:
        """What the lane that runs was answered, and guesses."""
        return self._history.get(self._lane, ())  # type: ignore[no-any-return]

    def _with_guess(self, answers: tuple[Any, ...], call: Call) -> tuple[Any, ...]:
        """Return the answers and a guess at the next one; stop if there is none.

        Lanes share the process, so they go on with what changes nothing in it: states of replicas.
        """
        is_guessed = self._lane == MAIN or call.operation == "load"
        guess = self.guess(call) if is_guessed and len(self.passed) < GUESSES_MAX else None
        if guess is None:
            raise Waiting(call)
        self.passed.append((answers, call))
        self._history = {**self._history, self._lane: (*answers, guess)}
        return self.answers

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return the results in order; all calls run at once, each in a lane of its own."""
        number, self._maps = self._maps, self._maps + 1
        wanted = list(items)
        known = [self._history.get((number, place)) for place in range(len(wanted))]
        if not all(isinstance(each, Finished) for each in known):
            raise AtMap(number, work, wanted)
        return [each.result for each in known]

    def run_lane(self, at: "AtMap", place: int, answers: Sequence[Any]) -> "Finished | Call":
        """Run one call of a map up to its first port call without an answer, or to its end."""
        lane = (at.number, place)
        self._lane, self._places[lane] = lane, 0
        self._history, self.passed = {lane: answers}, []
        try:
            return Finished(at.work(at.items[place]))
        except Waiting as waiting:
            return waiting.call

    def state(self, answer: Log, version: int) -> ReplicaState:
        """Return an answer's state; its version is its place among the lane's answers."""
        return self.states.at_version(answer.number, version)

    @property
    def partition_epoch(self) -> int:
        """The partition's epoch in the process's own image, by its own count."""
        partition = self.metadata.image.partition(KEY)
        assert partition is not None
        return partition.partition_epoch


class _Clock:
    """Time stands still: no append times out, and no sleep takes any.

    A process that is late has found a long time gone by since any append.
    """

    def __init__(self, late_ms: int) -> None:
        self._late_ms = late_ms

    def now_ms(self) -> int:
        return NOW_MS + self._late_ms

    def monotonic_ms(self) -> int:
        return 0

    def sleep_ms(self, duration_ms: float) -> None:
        """Nothing others do takes time, so waiting is being overtaken."""


class _ReplicaLog:
    def __init__(self, process: Process, address: ReplicaAddress) -> None:
        self.clock = process.clock
        self._process = process
        self._address = address

    def known_soon(self) -> None:
        """A state that was loaded before is a load after which others went on."""

    def load(self) -> ReplicaState:
        answer, place = self._process.ask(Call("load", self._address))
        return self._process.state(answer, place)

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        call = Call("commit", self._address, state.version, change)
        answer, place = self._process.ask(call)
        return self._process.state(answer, place)

    def may_need_checkpoint(self) -> bool:
        return False

    def maintain(self) -> None:
        """Nothing is due in memory."""


class _ReplicaStore:
    def __init__(self, process: Process) -> None:
        self._process = process

    def open(self, address: ReplicaAddress) -> _ReplicaLog:
        return _ReplicaLog(self._process, address)

    def open_uncached(self, address: ReplicaAddress) -> _ReplicaLog:
        return _ReplicaLog(self._process, address)

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        self._process.ask(Call("make", address, content=leader_epoch))


class _SegmentStore:
    """Nobody else sees a file before a commit names it, and none is damaged, so no copy is a step."""

    def copy(self, *arguments: Any, **named: Any) -> None:
        pass

    def check(self, *arguments: Any) -> None:
        pass

    def borders(self, *arguments: Any) -> Any:
        raise AssertionError("no search merges")


class _MetadataLog:
    leader_uri = "/"

    def __init__(self, process: Process) -> None:
        self._process = process

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        assert to_offset is None, "no search opens the past"
        process = self._process
        if process.fresh_reads:
            process.fresh_reads -= 1
            return []
        news, _ = process.ask(Call("read", partition_epoch=process.partition_epoch))
        records = process.images.records_of(news)
        return [MetadataBatch(base_offset=from_offset, stamp=STAMP, records=records)]

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        process = self._process
        call = Call("append", content=tuple(records), partition_epoch=process.partition_epoch)
        process.ask(call)
        return MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))

    def has_successor(self, offset: Offset) -> bool:
        raise AssertionError("no search waits for commits")

    def root_ms(self) -> int | None:
        return None

    def offset_at(self, time_ms: int) -> Offset:
        raise AssertionError("no search opens the past")

    def check_writable(self) -> None:
        """A reader may write here."""

    def read_from_snapshot(self) -> tuple[MetadataBatch | None, list[MetadataBatch]]:
        raise AssertionError("a process is started with an image")

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        raise AssertionError("no search maintains its metadata log")

    def maintain(self, *, cleans: bool = True) -> None:
        """Nothing is due in memory."""


def with_partition_epoch(image: MetadataImage, partition_epoch: int) -> MetadataImage:
    topic = image.topics[KEY.topic_id]
    partition = replace(topic.partitions[0], partition_epoch=partition_epoch)
    topics = {KEY.topic_id: replace(topic, partitions=partition_map({0: partition}))}
    return replace(image, topics=topics)

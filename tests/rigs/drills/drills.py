"""The drills: what befalls a cluster, what its operator does then, and what is wanted of both."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.rigs.drills.bed import ASSIGNMENT, SERVES, TOPIC, VOTERS, Bed

HOLD_S: Final = 50
"""So long a fault lasts: as its alert waits, by the hurried rules, and the time to notice it."""

SOLO: Final = "solo"
Undo = Callable[[], object]


class Drill(NamedTuple):
    """A drill by its number in the table that operators asked for. `wanted`: beside nothing lost,
    doubled or out of order. `alerts` are to fire, `may_fire` may, no other does; without KafkaOnSpark
    before their names. `stood_s`: for how long writers may stand, of the least and the most affected
    partition. `may_lose`: a topic whose records may be lost, since that is asked for."""

    number: int
    title: str
    work: Callable[[Bed], None]
    wanted: str = ""
    alerts: str = ""
    may_fire: str = ""
    stood_s: tuple[float, float] | None = None
    may_lose: str = ""


def active(bed: Bed) -> tuple[str, str]:
    """Return the serve that is the controller, and the other one."""
    bed.until("a controller", bed.active)
    first = bed.active() or SERVES[0]
    return first, SERVES[1 - SERVES.index(first)]


def start(bed: Bed, serve: str, shift_s: int = 0) -> None:
    bed.serve(serve, shift_s)
    bed.until(f"{serve} answers", partial(bed.figures, serve))


def killed(bed: Bed) -> None:
    serve, _ = active(bed)
    bed.fault(f"kill -9 of {serve}, the controller")
    bed.signal(serve, signal.SIGKILL)
    bed.heals()
    start(bed, serve)


def stopped(bed: Bed) -> None:
    serve, other = active(bed)
    bed.fault(f"SIGSTOP of {serve}, the controller, for 60 s")
    bed.signal(serve, signal.SIGSTOP)
    bed.heals()
    time.sleep(max(0.0, bed.fault_at + 60 - time.time()))
    bed.signal(serve, signal.SIGCONT)
    time.sleep(5)
    bed.expect("the thawed one stands by", bed.active() == other)


def held(bed: Bed, what: str, do: Callable[[Bed], Undo], seconds: float = HOLD_S) -> None:
    """Have a fault last for some time, ask what an operator asks meanwhile, and undo it."""
    bed.fault(what)
    undo = do(bed)
    time.sleep(seconds / 2)
    bed.kos("brokers --list")
    bed.kos("metadata-quorum describe --replication")
    time.sleep(max(0.0, bed.fault_at + seconds - time.time()))
    undo()
    bed.note("undone")
    bed.heals()


def fill(bed: Bed, name: str = "b3") -> Undo:
    bed.fill(name)
    return (bed.folder / name / "filler").unlink


def set_read_only(bed: Bed) -> Undo:
    bed.remount("b3", "ro")
    return partial(bed.remount, "b3", "rw")


def freeze(bed: Bed) -> Undo:
    bed.freeze("b4")
    return partial(bed.thaw, "b4")


def lose(bed: Bed, name: str, replace: Undo) -> Undo:
    bed.unmount(name)
    return replace


def register(bed: Bed, name: str) -> None:
    """Give a broker a new disk."""
    bed.mount(name)
    bed.kos(f"brokers --register --broker {name[1]} --root {bed.root(name)} --yes")


def broker_replaced(bed: Bed) -> None:
    replace = partial(register, bed, "b3")
    held(bed, "the disk of broker 3 is gone", partial(lose, name="b3", replace=replace))
    [rack] = [each["rack"] for each in bed.asked("brokers --list") if each["broker"] == 3]
    bed.expect("broker 3 has its rack", rack == "rack-3")


def voters(bed: Bed) -> list[tuple[str, str]]:
    """Return the id of each voter and the name of its disk, the leader first."""
    rows = bed.asked("metadata-quorum describe --replication")
    rows.sort(key=lambda row: row["status"] != "Leader")
    return [(str(row["node_id"]), Path(row["root"]).parent.name) for row in rows]


def voter_replaced(bed: Bed) -> None:
    number, name = voters(bed)[0]

    def replace() -> None:
        bed.mount(name)
        bed.kos(f"metadata-quorum remove-controller {number} --yes")
        bed.kos(f"metadata-quorum add-controller {bed.root(name)}")

    what = f"the root of voter {number}, which leads, is gone"
    held(bed, what, partial(lose, name=name, replace=replace))


def voter_full(bed: Bed) -> None:
    number, name = voters(bed)[0]

    def make_room(undo: Undo) -> None:
        rows = bed.asked("metadata-quorum describe --replication")
        [problem] = [row["problem"] for row in rows if str(row["node_id"]) == number]
        bed.expect("describe says that the voter is full", "full" in str(problem))
        undo()

    what = f"the disk of voter {number}, which leads, is full"
    held(bed, what, lambda bed: partial(make_room, fill(bed, name)))


def majority_lost(bed: Bed) -> None:
    (_, first), (_, second), (number, left) = voters(bed)
    bed.fault(f"the roots of two voters are wiped, the leader's too; voter {number} is left")
    for each in (first, second):
        bed.unmount(each)
        bed.mount(each)
    time.sleep(HOLD_S)
    bed.kos("brokers --list", code=None)
    answer = bed.kos("metadata-quorum describe --replication", code=None)
    bed.expect("describe answers without a majority", bool(answer))
    bed.stop(*SERVES, "sender", "member-1", "member-2")
    bed.url = str(bed.root(left))
    bed.kos(f"metadata-quorum force --from {number} --yes")
    for each in SERVES:
        start(bed, each)
    bed.write("sender-again")
    for each in (first, second):
        bed.kos(f"metadata-quorum add-controller {bed.root(each)}")
    bed.url = ",".join(str(bed.root(each)) for each in VOTERS)
    bed.heals()
    bed.consume("member-3")


def move(bed: Bed, brokers: str = "") -> None:
    """Plan a balance, move, and wait until all is moved."""
    plan = bed.folder / "plan.json"
    plan.write_text(json.dumps(bed.asked(f"reassign-partitions --generate {brokers}")))
    bed.kos(f"reassign-partitions --execute --reassignment-json-file {plan}")
    bed.until("moved", lambda: not bed.asked("reassign-partitions --list"), 120, 3)
    bed.kos(f"reassign-partitions --verify --reassignment-json-file {plan}")


def brokers_added(bed: Bed) -> None:
    bed.fault("three brokers are added, and replicas moved to them")
    for each in ("b5", "b6", "b7"):
        register(bed, each)
    move(bed)
    bed.heals()


def drained(bed: Bed) -> None:
    bed.fault("broker 4 is drained, resumed, drained again, emptied and unregistered")
    for action in ("drain", "resume", "drain"):
        bed.kos(f"brokers --{action} --broker 4")
        time.sleep(5)
    move(bed, "--broker-list 1,2,3")
    bed.kos("brokers --unregister --broker 4 --yes")
    bed.heals()


def throttled(bed: Bed) -> None:
    lines, plan = bed.folder / "big.txt", bed.folder / "big.json"
    # Text that a codec makes half as long.
    lines.write_text("".join(os.urandom(50_000).hex() + "\n" for _ in range(1200)))
    move = {"topic": "big", "partition": 0, "replicas": [3, 4]}
    plan.write_text(json.dumps({"partitions": [move]}))
    bed.kos("topics --create --topic big --replica-assignment 1:2")
    bed.kos(f"produce --topic big -q {lines}")
    bed.fault("60 MB are moved at 2 MB/s, then at 5 MB/s, and the move is cancelled")
    for rate, seconds in ((2_000_000, 8), (5_000_000, 2)):
        words = f"--reassignment-json-file {plan} --throttle {rate}"
        bed.kos(f"reassign-partitions --execute {words}")
        time.sleep(seconds)
        bed.kos(f"reassign-partitions --verify --reassignment-json-file {plan}", code=1)
    bed.kos(f"reassign-partitions --cancel --reassignment-json-file {plan}")
    bed.heals()


def retention(bed: Bed) -> None:
    of_all = "configs --alter --entity-type brokers --entity-default"
    bed.kos(f"{of_all} --add-config log.retention.check.interval.ms=2000")
    time.sleep(70)
    bed.fault("retention is set to a minute, and back")
    minute = f"configs --alter --topic {TOPIC} --add-config retention.ms=60000"
    bed.kos(minute, code=2)
    bed.kos(f"{minute} --yes")
    begins = f"get-offsets --topic {TOPIC} --time earliest"
    bed.until("records go", lambda: any(each["offset"] for each in bed.asked(begins)))
    bed.kos(f"configs --alter --topic {TOPIC} --delete-config retention.ms")
    bed.heals()


def topic_again(bed: Bed) -> None:
    bed.fault("the topic is deleted under load, and created again")
    bed.kos(f"topics --delete --topic {TOPIC}", code=2)
    bed.kos(f"topics --delete --topic {TOPIC} --yes")
    bed.cut_at = time.time()
    bed.kos(f"topics --create --topic {TOPIC} {ASSIGNMENT}")
    bed.heals()
    time.sleep(15)


def solo(bed: Bed) -> dict[str, Any]:
    [topic] = bed.asked(f"topics --describe --topic {SOLO}")
    [partition] = topic["partitions"]
    return dict(partition)


def lose_last(bed: Bed) -> None:
    """Have broker 3 alone in sync of a partition on 3 and 4, and lose its disk; 4 comes back."""
    bed.topics.append(SOLO)
    assignment = "--replica-assignment 3:4 --config min.insync.replicas=1"
    bed.kos(f"topics --create --topic {SOLO} {assignment}")
    bed.produce("solo", SOLO)
    away = bed.root("b4").rename(bed.root("b4").with_name("away"))
    bed.until("3 alone is in sync", lambda: solo(bed)["isr"] == [3])
    bed.produce("solo", SOLO)
    bed.fault("the only disk in sync of a partition is lost; an older replica is there")
    bed.unmount("b3")
    away.rename(bed.root("b4"))


def elect_uncleanly(bed: Bed) -> None:
    words = f"leader-election --election-type unclean --topic {SOLO} --partition 0"
    bed.kos(words, code=2)
    elected = re.search(rf"^{SOLO} +0 +4 ", bed.kos(f"{words} --yes"), re.M)
    bed.expect("broker 4 is elected", elected is not None)


def last_disk_lost(bed: Bed) -> None:
    lose_last(bed)
    time.sleep(15)
    register(bed, "b3")
    time.sleep(HOLD_S / 2)
    bed.kos(f"topics --describe --topic {SOLO}")
    leader = solo(bed)["leader"]
    bed.expect("the partition waits; the new empty disk does not lead", leader is None)
    elect_uncleanly(bed)
    bed.heals()


def unclean(bed: Bed) -> None:
    lose_last(bed)
    bed.until("no leader", lambda: solo(bed)["leader"] is None)
    time.sleep(10)
    elect_uncleanly(bed)
    bed.produce("solo", SOLO)
    register(bed, "b3")
    bed.heals()


def large_records(bed: Bed) -> None:
    bed.kos(f"configs --alter --topic {TOPIC} --add-config max.message.bytes=20000000")
    bed.fault("records of 10 MB")
    codes = [bed.produce("large", TOPIC, filled_to=10_000_000) for _ in range(4)]
    bed.expect("20 records of 10 MB are acknowledged", not any(codes))
    bed.heals()


def restarted(bed: Bed) -> None:
    bed.fault("all processes are restarted, one after the other")
    for each in SERVES:
        bed.stop(each)
        start(bed, each)
    for old, new in (("member-1", "member-3"), ("member-2", "member-4")):
        bed.stop(old)
        bed.consume(new)
        time.sleep(5)
    bed.write("sender-again")
    time.sleep(5)
    bed.stop("sender")
    bed.heals()


def clocks(bed: Bed) -> None:
    serve, other = active(bed)
    bed.fault("the controller's clock is 8 days ahead, one producer's 1 h behind, one's 2 h ahead")
    bed.stop(other)
    start(bed, other, 8 * 86400)
    bed.stop(serve)
    bed.write("sender-behind", -3600)
    bed.write("sender-ahead", 2 * 3600)
    time.sleep(HOLD_S / 2)
    bed.kos("consumer-groups --describe --group g")
    bed.stop("sender-behind", "sender-ahead", other)
    for each in SERVES:
        start(bed, each)
    bed.heals()
    least, most = bed.times_off("sender")
    bed.note(f"the other producer's records have times {least} to {most} s after their answer")
    bed.expect("no other's time changes", -60 < least <= most < 60)


AT_ONCE: Final = (3.0, 3.0)
SPARED: Final = (3.0, 15.0)
"""Others go on at once, and its own within a session (9 s) and what an election takes on a busy machine."""

FROZEN: Final = "others at once, its own ≤ session"
GONE: Final = "OfflinePartitions ProbesFail UncleanElection"
FULL: Final = partial(held, what="the disk of broker 3 is full", do=fill)
READ_ONLY: Final = partial(held, what="the disk of broker 3 is read-only", do=set_read_only)
STILL: Final = partial(held, what="the disk of broker 4 is frozen", do=freeze)

# fmt: off
DRILLS: Final[Mapping[str, Drill]] = {
    "killed": Drill(1, "kill -9 the active serve", killed, "who and why is logged"),
    "stopped": Drill(2, "SIGSTOP it for 60 s", stopped, "it stands by when thawed"),
    "broker-replaced": Drill(3, "broker's disk gone, wiped, a new one registered", broker_replaced, "definite errors sooner; rack kept", "BrokerFenced ProbesFail"),
    "disk-full": Drill(4, "disk full", FULL, "≤ 3 s; once in the log", "BrokerFenced RootFillsUp", "ProbesFail", AT_ONCE),
    "read-only": Drill(5, "read-only remount", READ_ONLY, "≤ 3 s", "BrokerFenced", "ProbesFail", AT_ONCE),
    "voter-replaced": Drill(6, "leading voter's root gone, wiped, replaced", voter_replaced, "“lost: remove, add”", "VoterLost"),
    "majority-lost": Drill(7, "two of three voters wiped, `force`", majority_lost, "describe without a majority", "NoController Failing", "VoterLost"),
    "brokers-added": Drill(8, "three brokers added, rebalanced", brokers_added),
    "drained": Drill(9, "drain, resume, unregister", drained),
    "throttled": Drill(10, "60 MB moved at 2 MB/s, raised, cancelled", throttled),
    "retention": Drill(11, "retention to 1 minute and back", retention, "asks; bytes told"),
    "topic-again": Drill(12, "topic deleted and created under load", topic_again),
    "last-disk-lost": Drill(13, "only in-sync disk lost", last_disk_lost, "new empty disk does not lead", GONE, "BrokerFenced UnderMinIsr", None, SOLO),
    "unclean": Drill(14, "unclean election", unclean, "offsets in the question", GONE, "BrokerFenced UnderMinIsr", None, SOLO),
    "large-records": Drill(15, "10 MB records", large_records),
    "restarted": Drill(16, "rolling restart of all", restarted),
    "frozen-28": Drill(17, "a disk frozen 28 s", partial(STILL, seconds=28), FROZEN, "ProbesFail", "", SPARED),
    "frozen-75": Drill(18, "a disk frozen 75 s", partial(STILL, seconds=75), FROZEN, "BrokerFenced ProbesFail", "", SPARED),
    "clocks": Drill(19, "clocks: serve +8 d, producers -1 h, +2 h", clocks, "no other's time changes"),
    "voter-full": Drill(20, "a voter's disk fills", voter_full, "told by its name", "RootFillsUp", "VoterBehind VoterLost"),
}

"""What goes wrong with disks and processes, one event at a time, and how it ends."""

from functools import partial
from typing import Any

from kafka_on_spark.base.errors import KafkaStorageError, RootAccessDeniedError
from kafka_on_spark.base.ids import LOST, PartitionKey
from tests.simulation.checks.invariants import no_acked_record_lost
from tests.simulation.faults.drawing import CLOCK_JUMPS, Drawing, Event
from tests.simulation.faults.forging import forged_log
from tests.simulation.plan import LOSING
from tests.simulation.world.disks import Root, Table


class Faults(Drawing):
    """The world's ill will: draws events, and does them.

    An event that can't be done now is left out.
    """

    def do(self, event: Event) -> bool:
        """Let `event` happen; return whether it did."""
        name, *about = event
        if name == "thaw":
            return self._thaw(about[0])
        if name == "nap":
            return self._nap(*about)
        if name in ("kill", "freeze", "cut off", "denied", "rejoin", *CLOCK_JUMPS):
            return self._to_node(name, *about)
        if name in ("metadata away", "metadata back"):
            self._world.disks.is_metadata_away = name == "metadata away"
            return True
        root = self._world.disks.root_of(int(about[0]))
        if name in LOSING and not self._may_lose(root):
            return False
        done = bool(getattr(self, "_" + name.replace(" ", "_").replace("-", "_"))(root, *about[1:]))
        if done and name in LOSING:
            self.damaged.add(root.broker_id)
            if not self._plan.is_unclean:
                no_acked_record_lost(self._ledger)
        return done

    def _may_lose(self, root: Root) -> bool:
        """Return whether this disk may lose data now: at most min.insync.replicas - 1 may be
        without what they had at any time, one more where records may be lost."""
        self.damaged = {each for each in self.damaged if not self._is_whole(each)}
        allowed = self._plan.min_isr - 1 + self._plan.is_unclean
        return len(self.damaged | {root.broker_id}) <= allowed

    def _is_whole(self, broker_id: int) -> bool:
        """Return whether a disk that had lost data is in sync again with all it has."""
        ledger, root = self._ledger, self._world.disks.root_of(broker_id)
        for key, partition in ledger.image.partitions():
            if broker_id not in partition.replicas:
                continue
            if broker_id not in partition.isr:
                return False
            table = ledger.live_table(
                key, partition, partition.replicas[partition.replicas.index(broker_id)]
            )
            if (
                table is None
                or table.is_emptied
                or table.state.log_end_offset < partition.high_watermark
            ):
                return False
            place = f"{key.topic_id}/{key.partition}-{table.identity.replica_uuid}"
            if any(each[0] == place for each in root.rotten):
                return False
        return True

    def heal_all(self) -> None:
        """End every fault that ends; what was lost stays lost."""
        for root in self._world.disks.roots.values():
            self._heal(root)
        self._world.disks.is_metadata_away = False
        for node in self._nodes():
            node.is_frozen = False
            node.cut_off.clear()

    def _thaw(self, name: str) -> bool:
        for node in self._nodes():
            if node.name == name and node.is_frozen:
                node.is_frozen = False
                return True
        return False

    def _nap(self, name: str, broker: str, calls: str) -> bool:
        """Freeze a process between its inspections while a root is back, which is away again when it
        goes on."""
        node = next((each for each in self._nodes() if each.name == name), None)
        root = self._world.disks.root_of(int(broker))
        tasks = [each for each in self._world.scheduler.tasks.values() if each.node is node]
        is_between = all(each.operation == "sleep" for each in tasks)
        if node is None or node.is_frozen or root.can_read or not is_between:
            return False
        node.is_frozen = node.was_frozen = True
        root.can_read = root.can_write = True

        def wake() -> None:
            if node.is_frozen:
                root.can_read = root.can_write = node.is_frozen = False

        self._world.later(int(calls), wake)
        return True

    def _to_node(self, name: str, about: str, *more: str) -> bool:
        node = next((each for each in self._nodes() if each.name == about), None)
        if node is None or not node.is_alive:
            return False
        if name == "kill":
            self._world.scheduler.kill(node)
        elif name == "freeze":
            node.is_frozen = node.was_frozen = True
        elif name == "rejoin":
            node.cut_off.clear()
        elif name in ("cut off", "denied"):
            error = KafkaStorageError if name == "cut off" else RootAccessDeniedError
            node.cut_off[self._world.disks.root_of(int(more[0])).url] = error
        else:
            node.skew_ms += int(more[0])
        return True

    def _heal(self, root: Root) -> bool:
        is_full = root.is_full or root.is_nearly_full
        is_ill = not (root.can_read and root.can_write) or is_full or root.failing_calls > 0
        root.can_read = root.can_write = True
        root.is_full = root.is_nearly_full = False
        root.failing_calls, root.clock_ahead_ms = 0, 0
        return is_ill

    def _root_clock_jump(self, root: Root, ahead_ms: str) -> bool:
        root.clock_ahead_ms = int(ahead_ms)
        return True

    def _offline(self, root: Root) -> bool:
        root.can_read = root.can_write = False
        return True

    def _blink(self, root: Root) -> bool:
        """Take a root away for a few calls."""
        if not root.can_read:
            return False
        was_writable, root.can_read, root.can_write = root.can_write, False, False

        def back() -> None:
            root.can_read, root.can_write = True, root.can_write or was_writable

        self._world.later(1 + self._world.scheduler.calls % 7, back)
        return True

    def _read_only(self, root: Root) -> bool:
        root.can_write = False
        return True

    def _full(self, root: Root) -> bool:
        root.is_full = True
        return True

    def _nearly_full(self, root: Root) -> bool:
        root.is_nearly_full = True
        return True

    def _burst(self, root: Root, calls: str) -> bool:
        root.failing_calls += int(calls) * 5
        return True

    def _sticky(self, root: Root) -> bool:
        root.failing_calls = 10**6
        return True

    def _wipe(self, root: Root) -> bool:
        root.directory_id = None
        lost = filter(partial(self._is_lost, root), root.tables)
        root.whole.update(filter(root.is_whole, lost))
        root.tables.clear()
        root.files.clear()
        root.rotten.clear()
        return True

    def _lose_tables(self, root: Root) -> bool:
        """Lose one partition's table; the disk's identity stays."""
        tables = self._tables(root)
        for place, table in tables:
            root.lost[place] = table.state
            del root.tables[place]
            root.rotten.update((place, path) for path in root.files.pop(place, {}))
        return bool(tables)

    def _tables(self, root: Root) -> list[tuple[str, Table]]:
        """Return the tables of assigned replicas, with their folders."""
        found = []
        for place, table in root.tables.items():
            identity = table.identity
            partition = self._ledger.image.partition(
                PartitionKey(identity.topic_id, identity.partition)
            )
            if partition is None or root.broker_id not in partition.replicas:
                continue
            is_lost = partition.directory_of(root.broker_id) in (None, LOST)
            if partition.uuid_of(root.broker_id) == identity.replica_uuid and not is_lost:
                found.append((place, table))
        return found

    def _roll_back(self, root: Root, commits: str) -> bool:
        """Restore the disk of a broker that is down from an older copy.

        Of one that is down; see `_roll_back_live` for one that serves.
        """
        if not self._is_down(root.broker_id):
            return False
        done = False
        for _, table in self._tables(root):
            removed = table.states[max(1, len(table.states) - int(commits)) :]
            if removed:
                self._forget(table, len(table.states) - len(removed))
                done = True
        return done

    def _roll_back_live(self, root: Root, commits: str) -> bool:
        for place, table in self._tables(root):
            kept = max(1, len(table.states) - int(commits))
            if kept < len(table.states):
                self._forget(table, kept)
                root.damaged.add(place)
                return True
        return False

    def _mark(self, table: Table) -> int:
        """Return how far a table's partition is committed."""
        identity = table.identity
        key = PartitionKey(identity.topic_id, identity.partition)
        partition = self._ledger.image.partition(key)
        return 0 if partition is None else partition.high_watermark

    def _forge(self, root: Root, way: str) -> bool:
        """Change what is committed in a table by hand, in one of three ways.

        What is above the high watermark was promised to nobody, and nothing tells it from what
        stood there.
        """
        for place, table in self._tables(root):
            made = forged_log(table.state, way, next(self._forged), self._mark(table))
            if made is None:
                continue
            state, file = made
            root.files.setdefault(place, {})[file.file_name] = file.digest
            table.forgotten.append(table.state)
            table.states[-1] = state
            table.is_suspect, table.verified = True, 0
            root.damaged.add(place)
            return True
        return False

    def _forget(self, table: Table, kept: int) -> None:
        table.forgotten.append(table.state)
        del table.states[kept:]
        table.is_suspect = True
        table.verified = min(table.verified, table.state.log_end_offset)

    def _empty(self, root: Root) -> bool:
        """Lose the bytes of the last commit of one table: power failed before they were kept."""
        tables = [each for _, each in self._tables(root) if each.state.version > 0]
        for table in tables[:1]:
            table.is_emptied = table.is_suspect = True
        return bool(tables)

    def _mend(self, root: Root) -> bool:
        """Put a file back that this disk had damaged: an operator restores it from a copy."""
        return any(_put_right(root, place, path) for place, path in sorted(root.rotten))

    def _restore(self, root: Root) -> bool:
        """Put back all files of a replica that was called lost: an operator has found the cause."""
        damaged = [each for each in sorted(root.rotten) if self._is_lost(root, each[0])]
        for place, path in damaged:
            _put_right(root, place, path)
        return bool(damaged)

    def _rot(self, root: Root) -> bool:
        for place, table in self._tables(root):
            batches: Any = table.state.batches
            if batches:
                segment = batches[len(batches) // 2].segments[0]
                files = root.files.get(place, {})
                if segment.file_name in files:
                    files[segment.file_name] = "?" * len(segment.digest)
                    root.rotten.add((place, segment.file_name))
                    root.damaged.add(place)
                    return True
        return False


def _put_right(root: Root, place: str, path: str) -> bool:
    """Put back what a file had that this disk has damaged; return whether its table is there."""
    files = root.files.get(place, {})
    if place not in root.tables or path not in files:
        return False
    files[path] = path.rsplit("-", 1)[-1].removesuffix(".parquet")
    root.rotten.discard((place, path))
    return True

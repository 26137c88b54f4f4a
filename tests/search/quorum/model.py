"""A small model of the quorum over the production's decisions: voters are tables, processes come
and go and remember only what they have read or committed.

A step is one look at, or one commit on, one table; a commit that can't win any more changes nothing
and is left out. Every state within a scope is visited, breadth first, so what is found is shortest.
Invariants: Q1 (one leader an epoch), Q2 (what is committed stays), log matching (Q7), and
Q10 (a confirmed read has what was committed before it began).
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kafka_on_spark.base.errors import InconsistentClusterError


class State(NamedTuple):
    """One moment.

    Attributes:
        tables: Each voter's.
        processes: What each remembers: None, ("C", candidate's table, tables that voted) or
            ("L", leader's table, view).
        reader: None, or (committed when it began, view or None).
        decided: How many decisions were made.
        committed: The writes that somebody knows to be committed.
        wipes, rollbacks: How many are left.
    """

    tables: tuple
    processes: tuple
    reader: tuple | None
    decided: int
    committed: tuple
    wipes: int
    rollbacks: int


@dataclass(frozen=True)
class Scope:
    """What may happen: `epochs` at most, so many decisions, processes, readers, wipes; and, which
    no quorum stands, voters that are restored from a copy.

    `first_voters`: to so many of them the first thing may happen. At first they differ in their names
    alone, so what may happen after a step of one may happen after the same step of another."""

    epochs: int = 2
    decisions: int = 1
    processes: int = 1
    has_reader: bool = False
    wipes: int = 0
    rollbacks: int = 0
    first_voters: int = 3


class BrokenError(Exception):
    """An invariant does not hold."""


@dataclass
class Found:
    """What a search found: how many states, the longest committed log, reads, and what broke."""

    states: int = 0
    committed: int = 0
    reads: int = 0
    broken: str | None = None
    path: tuple = ()


def first_state(rules, scope):
    return State(
        rules.first_tables(), (None,) * scope.processes, None, 0, (), scope.wipes, scope.rollbacks
    )


def steps(state, rules, scope):
    """Yield each step from a state: its name and the state after it."""
    for process in range(scope.processes):
        for name, after in _steps_of(state, process, rules, scope):
            yield f"{process}: {name}", after
    if scope.has_reader:
        yield from _reading(state, rules)
    yield from _accidents(state, rules, scope)


def _voters(state, rules, scope):
    """Return the places at which something may happen unasked, each with its table."""
    found = [*enumerate(state.tables)]
    return found[: scope.first_voters] if state.tables == rules.first_tables() else found


def _steps_of(state, process, rules, scope):
    yield from _beginnings(state, process, rules, scope)
    memory = state.processes[process]
    if memory is None:
        return
    if memory[0] == "C":
        yield from _candidacy(state, process, memory, rules)
    else:
        yield from _leadership(state, process, memory, rules, scope)


def _beginnings(state, process, rules, scope):
    memory = state.processes[process]
    for place, table in _voters(state, rules, scope):
        if rules.leads(table):
            yield from _look(state, process, place, table, rules)
        if rules.is_candidate(table) and (memory is None or memory[:2] != ("C", table)):
            joined = ("C", table, frozenset({table}))
            yield f"join {place}", _remember(state, process, joined, rules)
        for epoch in range(rules.epoch(table) + 1, scope.epochs + 1):
            stood = rules.stood(table, epoch)
            standing = ("C", stood, frozenset({stood}))
            after = _put(state, place, stood)
            yield f"stand {place} e{epoch}", _remember(after, process, standing, rules)


def _look(state, process, place, table, rules):
    memory = state.processes[process]
    view = rules.looked(table)
    if memory is not None and memory[0] == "L" and _is_same_term(memory[2], view, rules):
        view = rules.seen(memory[2], table)
    looked = ("L", table, view)
    if looked != memory:
        yield f"look {place}", _remember(state, process, looked, rules)


def _is_same_term(known, view, rules):
    known, view = rules.views[known], rules.views[view]
    return (known.key, known.epoch) == (view.key, view.epoch)


def _candidacy(state, process, memory, rules):
    _, candidate, votes = memory
    place = rules.place(candidate)
    for voter, table in enumerate(state.tables):
        if voter == place:
            continue
        granted, after = rules.grant(table, candidate)
        if not granted or any(rules.place(each) == voter for each in votes):
            continue
        counted = ("C", candidate, votes | {after})
        yield (
            f"vote {voter} for {place}",
            _remember(_put(state, voter, after), process, counted, rules),
        )
    if state.tables[place] != candidate:
        return
    led = rules.begin(candidate, votes)
    if led is not None:
        _check_leader_has(rules.names(candidate), rules.epoch(candidate), state, rules)
        leading = ("L", led, rules.looked(led))
        yield f"lead {place}", _remember(_put(state, place, led), process, leading, rules)


def _leadership(state, process, memory, rules, scope):
    _, leader, view = memory
    place = rules.place(leader)
    if state.decided < scope.decisions and state.tables[place] == leader:
        after = rules.appended(leader, view, state.decided)
        if after is not None:
            decided = _put(state, place, after)._replace(decided=state.decided + 1)
            known = ("L", after, rules.seen(view, after))
            yield f"append {place}", _remember(decided, process, known, rules)
    for voter, table in enumerate(state.tables):
        if voter != place:
            yield from _following(state, process, memory, (voter, table), rules)


def _following(state, process, memory, follower, rules):
    _, leader, view = memory
    voter, table = follower
    adopted = rules.adopted(table, leader)
    if adopted is not None:
        yield f"adopt {voter}", _remember(_put(state, voter, adopted), process, memory, rules)
    for records_max in (1, None):
        fetched = rules.fetched(table, leader, records_max)
        if fetched is not None:
            known = ("L", leader, rules.seen(view, fetched))
            after = _put(state, voter, fetched)
            yield f"fetch {voter} {records_max}", _remember(after, process, known, rules)
    seen = rules.seen(view, table)
    if seen != view:
        yield f"see {voter}", _remember(state, process, ("L", leader, seen), rules)


def _reading(state, rules):
    if state.reader is None:
        yield "begin to read", state._replace(reader=(len(state.committed), None))
        return
    began, view = state.reader
    for place, table in enumerate(state.tables):
        if view is None:
            looked = rules.looked(table)
            if looked is not None:
                yield from _read(state, began, looked, f"read {place}", rules)
        else:
            seen = rules.seen(view, table)
            if seen != view:
                yield from _read(state, began, seen, f"confirm {place}", rules)


def _read(state, began, view, name, rules):
    if not rules.is_confirmed(view):
        yield name, state._replace(reader=(began, view))
        return
    read = len(rules.views[view].log.batches)
    if read < began:
        raise BrokenError(f"a read that began after {state.committed[:began]} ends at {read}")
    yield f"{name}, done", state._replace(reader=None)


def _accidents(state, rules, scope):
    if not (state.wipes or state.rollbacks):
        return
    for place, table in _voters(state, rules, scope):
        if state.wipes:
            yield (
                f"wipe {place}",
                _put(state, place, rules.wiped(place))._replace(wipes=state.wipes - 1),
            )
        if state.rollbacks and len(rules.names(table)) > 1:
            yield (
                f"roll back {place}",
                _put(state, place, rules.rolled_back(table))._replace(
                    rollbacks=state.rollbacks - 1
                ),
            )


def _put(state, place, table):
    tables = (*state.tables[:place], table, *state.tables[place + 1 :])
    return State(tables, *state[1:])


def _remember(state, process, memory, rules):
    """Return the state in which a process remembers something else, and knows what follows."""
    if memory[0] == "C" and rules.epoch(state.tables[rules.place(memory[1])]) > rules.epoch(
        memory[1]
    ):
        memory = None
    tables, before, reader, decided, committed, wipes, rollbacks = state
    processes = (*before[:process], memory, *before[process + 1 :])
    if memory is not None and memory[0] == "L":
        names = rules.committed_names(memory[2])
        shared = min(len(names), len(committed))
        if names[:shared] != committed[:shared]:
            raise BrokenError(f"committed {committed} is rewritten as {names}")
        committed = max(names, committed, key=len)
    return State(tables, processes, reader, decided, committed, wipes, rollbacks)


def _check_leader_has(names, epoch, state, rules):
    """A leader of an epoch above that of what is committed has all of it."""
    for each in state.committed:
        _, _, named = each.partition(":")
        is_older = bool(named) and int(named) < epoch
        if is_older and each not in names:
            raise BrokenError(f"a leader of epoch {epoch} lacks {each}, which is committed")


def check(tables, rules):
    """Check what must hold of the voters' tables in every state."""
    leaders = {}
    for table in (rules.tables[each] for each in tables):  # as they are, whichever rule is left out
        if table.leads and leaders.setdefault(table.quorum_epoch, table.key) != table.key:
            raise BrokenError(f"epoch {table.quorum_epoch} has two leaders")
    for place, mine in enumerate(tables):
        for other in tables[:place]:
            mismatch = rules.mismatch(mine, other)
            if mismatch is not None:
                raise BrokenError("{} and {} are at one place in one epoch".format(*mismatch))


def search(rules, scope, *, states_max=1_000_000):
    """Visit every state of a scope; return what was found."""
    first = first_state(rules, scope)
    before = {first: None}
    queue = deque([first])
    found, checked = Found(), set()
    while queue:
        state = queue.popleft()
        try:
            for name, after in steps(state, rules, scope):
                found.reads += name.endswith("done")
                if scope.processes > 1:
                    after = after._replace(processes=tuple(sorted(after.processes, key=repr)))
                if after in before:
                    continue
                before[after] = (state, name)
                if after.tables not in checked:
                    check(after.tables, rules)
                    checked.add(after.tables)
                found.committed = max(found.committed, len(after.committed))
                queue.append(after)
        except (BrokenError, InconsistentClusterError) as error:
            found.broken, found.path = str(error), _path(before, state)
            break
        assert len(before) < states_max, "the scope is too large"
    found.states = len(before)
    return found


def _path(before, state):
    names = []
    while before[state] is not None:
        state, name = before[state]
        names.append(name)
    return tuple(reversed(names))


def replay(rules, scope, names):
    """Take the steps of these names, one after another; return the state after them.

    Raises:
        BrokenError: An invariant does not hold after one.
        LookupError: There is no such step.
    """
    state = first_state(rules, scope)
    for name in names:
        state = dict(steps(state, rules, scope))[name]
        check(state.tables, rules)
    return state

"""The whole cluster in one process from one seed, ill-treated, healed and read back.

A failure prints its seed, its plan and its last decisions. ``pytest tests/simulation --seeds 20000 -n 2 --dist load`` is the long run.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from tests.simulation.conftest import CHUNK
from tests.simulation.faults.swarm_plans import plan_of
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate

DECISIONS_SHOWN = 100

COMMITS = ("commit", "metadata append")

# fmt: off
FAULTS = {
    "offline", "read-only", "full", "burst", "blink", "sticky", "wipe", "lose tables", "empty", "rot",
    "mend", "restore", "metadata away", "kill", "freeze", "second driver", "clock jump",
    "unclean election", "stale", "failed", "mistaken", "slow", "hung",
    *((call, fault) for call in COMMITS for fault in ("lost", "unsaid", "delayed", "resolved", "refused", "slow")),
}
# fmt: on
"""What the first seeds must have met: a simulation in which it does not occur shows nothing of it.
Written out, so that one that is no longer drawn is missed."""


def check_clean(plan: Callable[[int], Plan], seeds: Iterable[int]) -> Counter[object]:
    """Check that nothing is found in seeds; return the faults that they met."""
    met: Counter[object] = Counter()
    for seed in seeds:
        outcome = simulate(plan(seed))
        last = "\n".join(" | ".join(each) for each in outcome.script[-DECISIONS_SHOWN:])
        assert outcome.violation is None, (
            f"seed={seed}: {outcome.message}\nplan: {outcome.plan}\n{last}"
        )
        met += outcome.met
        logs = outcome.simulation.checker.ledger.logs.values()
        met["unclean election"] += sum(each.unclean_generation for each in logs)
    return met


def test_every_invariant_holds_after_every_effect(chunk):
    met = check_clean(plan_of, chunk)

    if chunk == range(CHUNK):
        assert not FAULTS - (+met).keys()

"""What must hold of what logs know of producers whose headers they no longer have (I11).

Judged at each commit, by the commit alone: what is forgotten here may be appended a second time by
whichever retry comes next, perhaps never in this run.
"""

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.log.batch import MergedSegment
from kafka_on_spark.log.producer_state import with_batches
from kafka_on_spark.log.state import LogChange, ProducerEntries, ProducerEntry, ReplicaState
from tests.simulation.checks.ledger import Ledger, require

KEPT = "I11 producers are kept"
TAKEN = "I11 producers are taken along"


def kept(ledger: Ledger, key: PartitionKey, before: ReplicaState, change: LogChange) -> None:
    """I11: no commit forgets a producer, but for one whose id has expired; and who takes headers away,
    or a segment that has none, knows their producers."""
    if change.producers is None and change.merged is None and change.drop_below is None:
        after = before.producers
    else:
        known = before.producers
        if change.cut_from is None:
            known = with_batches(known, before.removed_by(change))
        after = before.producers if change.producers is None else change.producers
        _has_all(ledger, key, known, after, KEPT)
    taken = [each for each in change.adds if isinstance(each, MergedSegment)]
    if taken and change.operation == "append_fetched":
        _has_all(ledger, key, with_batches({}, ledger.appended(key, taken)), after, TAKEN)


def _has_all(
    ledger: Ledger,
    key: PartitionKey,
    known: ProducerEntries,
    after: ProducerEntries,
    invariant: str,
) -> None:
    if known is after:
        return
    for producer_id, entry in known.items():
        now = after.get(producer_id)
        is_there = (
            now is not None
            and now.sequence >= entry.sequence
            and now.producer_epoch >= entry.producer_epoch
        )
        told = f"{key.partition}: {producer_id} was {entry}, is {now}"
        require(is_there or _may_go(ledger, key, producer_id, entry), invariant, told)


def _may_go(ledger: Ledger, key: PartitionKey, producer_id: str, entry: ProducerEntry) -> bool:
    """Return whether an id has expired since this was entered. An old sequence that comes back then
    is another matter: H3 sees it appended a second time."""
    has_expired = ledger.has_expired(producer_id, entry.producer_epoch)
    return has_expired or ledger.image.partition(key) is None

"""Which epochs a generation of a cluster has, so that an epoch names its generation.

A generation is what a cluster goes on with after a majority of its voters was lost for ever. Each
has epochs of its own, above those of all before it. So a batch, a leader's mark and a snapshot that
name an epoch name a generation with it, also where voters that were given up go on meanwhile.
"""

from typing import Final, NewType

from kafka_on_spark.base.errors import InconsistentClusterError
from kafka_on_spark.base.ids import NodeId, QuorumEpoch

Generation = NewType("Generation", int)
"""How often the cluster was forced; 0: never."""

EPOCHS_OF_A_GENERATION: Final = 100_000_000
"""An election a second takes three years for them. The first digits of an epoch are people's sign
of its generation."""

FIRST_EPOCHS: Final = 1_000_000
"""Of its epochs, so many are for voters to begin with."""


def generation_of(epoch: QuorumEpoch) -> Generation:
    """Return the generation that an epoch belongs to."""
    return Generation(epoch // EPOCHS_OF_A_GENERATION)


def first_epoch_after(epoch: QuorumEpoch, node_id: NodeId) -> QuorumEpoch:
    """Return the epoch with which voter `node_id` begins a generation, once it has seen `epoch`.

    Each voter has one of its own: where two are forced apart, their logs tell of it.
    """
    own = node_id if node_id < FIRST_EPOCHS else 0
    return QuorumEpoch((generation_of(epoch) + 1) * EPOCHS_OF_A_GENERATION + own)


def check_generation(known: Generation, found: Generation) -> None:
    """Check the generation that a root has against the one of this process's metadata.

    Raises:
        InconsistentClusterError: The root is of a later one: this process is of a cluster that
            people gave up.
    """
    if found > known:
        raise InconsistentClusterError(
            f"a root is of generation {found} of the cluster and this process of {known}: the"
            " cluster was forced; stop this process and open the cluster anew",
            known=known,
            found=found,
        )

"""Which epochs a generation of a cluster has, so that an epoch names its generation.

A generation is what a cluster goes on with after a majority of its voters was lost for ever. Each
has epochs of its own, above those of all before it. So a batch, a leader's mark and a snapshot that
name an epoch name a generation with it, also where voters that were given up go on meanwhile.
"""

from typing import Final, NewType

from kafka_on_spark.errors import InconsistentClusterError
from kafka_on_spark.ids import QuorumEpoch

Generation = NewType("Generation", int)
"""How often the cluster was forced; 0: never."""

EPOCHS_OF_A_GENERATION: Final = 100_000_000
"""An election a second takes three years for them. The first digits of an epoch are people's sign
of its generation."""


def generation_of(epoch: QuorumEpoch) -> Generation:
    """Return the generation that an epoch belongs to."""
    return Generation(epoch // EPOCHS_OF_A_GENERATION)


def first_epoch_after(epoch: QuorumEpoch) -> QuorumEpoch:
    """Return the epoch with which a generation begins, of a voter that has seen `epoch`."""
    return QuorumEpoch((generation_of(epoch) + 1) * EPOCHS_OF_A_GENERATION)


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

"""Describes and changes the metadata quorum: who votes, and who leads."""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass

from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError, VoterNotFoundError
from kafka_on_spark.raft.quorum.description import QuorumDescription
from kafka_on_spark.raft.voter_set import Voter, VoterKey, VoterSet
from kafka_on_spark.service.metadata.metadata_outage import ROOTS_AWAY
from kafka_on_spark.spark.run.opening import metadata_log_of
from kafka_on_spark.spark.wiring.preparing_voters import mark_former_voter, prepare_voter
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.identity.root_identity import write_obeyed
from kafka_on_spark.storage.roots.root_lists import cluster_url, roots_in
from kafka_on_spark.storage.roots.roots import normalize

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VotersChange:
    """A voter that was added or removed.

    Attributes:
        voter: Which one.
        voters: All that there are now, by their ids.
        is_marked: Whether the root of a removed voter says so; it was reached.
    """

    voter: Voter
    voters: tuple[Voter, ...]
    is_marked: bool = False


class Quorum:
    """Changes the quorum. `Cluster` documents each method under the same name."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe_quorum(self) -> QuorumDescription:
        self._services.metadata.check_open()
        return metadata_log_of(self._services.metadata).describe()

    def add_controller(self, root: str | os.PathLike[str], root_mode: int) -> VotersChange:
        metadata, options = self._services.metadata, self._services.options
        url = new_root(root)
        image = metadata.catch_up()
        metadata_log = metadata_log_of(metadata)
        voter = prepare_voter(metadata_log, image, url, options, root_mode)
        metadata_log.changes.bring_up(voter)  # while others decide
        with metadata.turn() as stamp:
            voters = metadata_log.changes.add(voter, stamp)
        self._catch_up_after()
        self._tell_brokers()
        return VotersChange(voter, voters.voters)

    def remove_controller(self, voter: int | str) -> VotersChange:
        metadata = self._services.metadata
        metadata.catch_up()
        changes = metadata_log_of(metadata).changes
        found = voter_named(metadata_log_of(metadata).tables.voters, voter)
        with metadata.turn() as stamp:
            voters = changes.remove(found.key, stamp)
        self._catch_up_after()
        self._tell_brokers()
        return VotersChange(found, voters.voters, mark_former_voter(found, self._services.options))

    def elect_controller(self, to: int | str | None) -> Voter:
        metadata = self._services.metadata
        metadata.catch_up()
        metadata_log = metadata_log_of(metadata)
        key: VoterKey | None = None
        if to is not None:
            key = voter_named(metadata_log.tables.voters, to).key
        with metadata.turn():
            key = metadata_log.changes.elect(key)
        self._catch_up_after()
        return voter_named(metadata_log.tables.voters, key.node_id)

    def _tell_brokers(self) -> None:
        """Write the voters of now on the brokers' roots, which obey them. One that can't be reached
        obeys the former voters, which the log still knows."""
        image = self._services.metadata.image
        roots = metadata_log_of(self._services.metadata).registered_roots
        for broker in image.brokers.values():
            try:
                write_obeyed(
                    broker.root,
                    broker.directory_id,
                    roots,
                    image.generation,
                    self._services.options,
                    image.registered_voters,
                )
            except KafkaOnSparkError as error:
                log.info("the root of broker %d does not know: %s", broker.broker_id, error)

    def _catch_up_after(self) -> None:
        """Catch up with a change that stands: if the metadata does not answer by now, the call that
        made the change has not failed."""
        with suppress(*ROOTS_AWAY):
            self._services.metadata.catch_up()


def new_root(root: str | os.PathLike[str]) -> str:
    """Return the URL of one metadata root, normalized.

    Raises:
        InvalidRootError: It is not the URL of a root, or has a comma in its name.
        InvalidRequestError: Several are named.
    """
    url = cluster_url([normalize(root)])
    assert len(roots_in(url)) == 1, url
    return url


def voter_named(voters: VoterSet, name: int | str) -> Voter:
    """Return the voter of an id, or of an id and a directory with a colon between.

    Raises:
        InvalidRequestError: `name` is neither.
        VoterNotFoundError: There is no such voter.
    """
    node_id, _, directory_id = str(name).partition(":")
    if isinstance(name, bool) or not node_id.isdecimal():
        raise InvalidRequestError(
            f"{name!r} names no voter: give its id, such as 2, or id:directory, as `metadata-quorum"
            " describe --replication` shows them"
        )
    for each in voters.voters:
        if each.key.node_id == int(node_id) and directory_id in ("", each.key.directory_id):
            return each
    raise VoterNotFoundError(
        f"{name} is no voter: the voters are {', '.join(str(each) for each in voters.voters)}"
    )

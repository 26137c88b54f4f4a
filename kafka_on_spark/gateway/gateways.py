"""The gateways of a cluster, which Kafka's clients see as its brokers.

Each is a static member of one group, that reads nothing: it beats, and they fence those of them
that are silent. Which one leads a partition or coordinates a group follows from who is there, by
rendezvous hashing, so that what is sent to one place meets in one gateway. Safety does not rest on
it: the log knows sequences and generations, whoever appends.
"""

import hashlib
import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from itertools import count
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import ClusterClosedError, KafkaOnSparkError
from kafka_on_spark.base.ids import MemberId, PartitionKey
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import join, leave
from kafka_on_spark.metadata.image import ControllerResult, GroupMember, MetadataImage
from kafka_on_spark.metadata.records import MemberClient
from kafka_on_spark.node.node import Node, heartbeats
from kafka_on_spark.store.deadlines import WakingClock

log = logging.getLogger(__name__)

GATEWAYS: Final = "__kafka_gateways"
"""The group of which gateways are the members: `consumer-groups --describe` shows them."""

GATEWAY_ID: Final = 1_000_000
"""Gateways have ids from here on: those of brokers, which a client sees as replicas, are lower."""

REASSIGNING: Final = "reassign-partitions-tool"
"""The client id of kafka-reassign-partitions."""

PLAINTEXT: Final = "PLAINTEXT"


class Place(NamedTuple):
    """A gateway's id, and the address at which clients reach it."""

    node_id: int
    host: str
    port: int


NOWHERE: Final = Place(-1, "", -1)


def is_loopback(host: str) -> bool:
    """Return whether an address is of its machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Gateways:
    """The gateways that a client of this one may go to, this one among them. Threads may share it.

    Those are the ones with the same protocol of security; at an address that is a machine's own,
    those of this machine.

    Attributes:
        me: This gateway's life as a member; None: it never came to the others.
    """

    def __init__(self, node: Node, host: str, port: int, protocol: str = PLAINTEXT) -> None:
        self._node = node
        self.metadata = node.metadata
        self._address = (host, port)
        self._protocol = protocol
        self._host = socket.gethostname()
        self._is_loopback = is_loopback(host)
        self._client = MemberClient(f"{protocol}://{host}:{port}", self._host, os.getpid())
        self._liveness = Liveness(
            self.metadata,
            node.part(heartbeats),
            WakingClock(),
            group=GATEWAYS,
            session="broker.session.timeout.ms",
            max_poll_interval_ms=2**31,
            timeout_ms=node.timeout_ms,
            new_id=node.ids.new_uuid,
        )
        self.me: MemberId | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateways", daemon=True)

    def begin(self) -> None:
        """Come to the gateways, or try until that succeeds."""
        self._look()
        self._thread.start()

    def end(self, timeout_s: float) -> None:
        """Leave the gateways, if that can be decided now; or they fence this one."""
        self._ended.set()
        self._thread.join(timeout_s)
        self._liveness.end()
        try:
            if self.me is not None:
                self._leave(self.me)
        except KafkaOnSparkError as error:
            log.info("this gateway is left to be fenced by others: %s", error)

    # Who is there

    def live(self, image: MetadataImage) -> list[Place]:
        """Return the gateways, by their ids."""
        found = (self._place(each) for each in _members(image).values())
        return sorted(each for each in found if each is not None)

    def listed(self, image: MetadataImage, client_id: str | None) -> list[Place]:
        """Return the brokers that a client sees: the gateways. One that moves replicas checks that
        it knows the brokers to which they go, and asks those: this gateway has their address, too.
        Others would send some requests twice."""
        places = self.live(image)
        if client_id != REASSIGNING:
            return places
        me = self.controller(places)
        return [*(me._replace(node_id=int(each)) for each in sorted(image.brokers)), *places]

    def _place(self, member: GroupMember) -> Place | None:
        protocol, _, address = (member.client.client_id or "").partition("://")
        host, _, port = address.rpartition(":")
        is_near = member.client.host == self._host if self._is_loopback else not is_loopback(host)
        if protocol != self._protocol or not is_near:
            return None
        return Place(int(member.instance_id or -1), host, int(port))

    def leads(self, image: MetadataImage, key: PartitionKey) -> bool:
        """Return whether a partition's records are to be sent to this gateway."""
        return leader_of(self.live(image), key)[1:] == self._address

    def coordinates(self, image: MetadataImage, group: str) -> bool:
        """Return whether members of a group are to ask this gateway."""
        return coordinator_of(self.live(image), group)[1:] == self._address

    def controller(self, places: Sequence[Place]) -> Place:
        """Return the gateway for commands: this one, once it is there."""
        mine = (each for each in places if each[1:] == self._address)
        return next(mine, places[0] if places else NOWHERE)

    # Being there

    def _run(self) -> None:
        while not self._ended.wait(self._liveness.interval_ms / 1000):
            try:
                self._look()
            except ClusterClosedError:
                return
            except Exception:
                log.exception("a gateway could not look after itself")

    def _look(self) -> None:
        """Beat, and check the one behind this one; come again, if others have fenced this one."""
        try:
            self._liveness.polled_at_ms = self._liveness.clock.monotonic_ms()
            if self.me not in _members(self.metadata.catch_up()):
                self._come()
            self._liveness.beat()
            self._liveness.check()
        except ClusterClosedError:
            raise
        except KafkaOnSparkError as error:
            log.warning("this gateway can't be seen by others, and tries again: %s", error)

    def _come(self) -> None:
        """Take the first id that is free; a process that had this address before has ended."""
        me = MemberId(self._node.ids.new_uuid())
        mine = self._client.client_id, self._client.host
        for each in _members(self.metadata.image).values():
            if (each.client.client_id, each.client.host) == mine:
                self._leave(each.member_id)

        def decide(image: MetadataImage) -> ControllerResult[None]:
            taken = {each.instance_id for each in _members(image).values()}
            free = next(n for n in map(str, count(GATEWAY_ID)) if n not in taken)
            return join(
                image, GATEWAYS, member_id=me, topics=(), instance_id=free, client=self._client
            )

        self.metadata.submit(decide, timeout_ms=self._node.timeout_ms)
        self.me = me
        self._liveness.begin(me)

    def _leave(self, member_id: MemberId) -> None:
        now_ms = self._node.clock.now_ms()
        self.metadata.submit(
            lambda image: leave(image, GATEWAYS, member_id, now_ms),
            timeout_ms=self._node.timeout_ms,
        )


def leader_of(places: Sequence[Place], key: PartitionKey) -> Place:
    """Return which of some gateways a partition's records are to be sent to."""
    return _chosen(places, f"{key.topic_id} {key.partition}")


def coordinator_of(places: Sequence[Place], group: str) -> Place:
    """Return which of some gateways the members of a group are to ask."""
    return _chosen(places, f"group {group}")


def _chosen(places: Sequence[Place], what: str) -> Place:
    def weight(place: Place) -> bytes:
        return hashlib.blake2b(f"{place.node_id} {what}".encode(), digest_size=8).digest()

    return max(places, key=weight, default=NOWHERE)


def _members(image: MetadataImage) -> Mapping[MemberId, GroupMember]:
    known = image.consumer_groups.get(GATEWAYS)
    return {} if known is None else known.members

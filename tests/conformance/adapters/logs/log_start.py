"""The kind of file 07 about records deleted by request."""

from kafka_on_spark.base.errors import KafkaOnSparkError, OffsetOutOfRangeError
from kafka_on_spark.base.ids import BrokerId, Offset
from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.controller.fetch_plan import check_request
from kafka_on_spark.controller.isr import conclude
from kafka_on_spark.controller.log_start import delete_records
from kafka_on_spark.log import operations
from kafka_on_spark.log.read_order import plan_read, plan_reads
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.observe.descriptions import offsets_of
from tests.builders import KEY, TOPIC
from tests.conformance.fetching import fetch_once
from tests.conformance.logs import batch_of, log_of
from tests.conformance.runner import Adapter, Answer, kafka_names
from tests.conformance.world import World


class DeleteRecords(Adapter):
    """Records deleted by request; all live replicas apply it at once, unless a vector says when."""

    def __init__(
        self,
        log_end_offset=0,
        high_watermark=0,
        log_start_offset=0,
        cleanup_policy="delete",
        replicas=1,
        hosted=True,
        replica_log_start=None,
        live=None,
    ):
        batches = [batch_of(each, 0) for each in range(log_start_offset, log_end_offset)]
        self.world = World(
            log_of(batches, start=log_start_offset, fence=0),
            replicas=range(1, replicas + 1),
            high_watermark=high_watermark,
            configs={"cleanup.policy": cleanup_policy},
        )
        self.policy = cleanup_policy
        self.is_hosted = hosted
        self.is_told = replica_log_start is not None
        self.asked = Offset(0)
        for each in range(2, replicas + 1):
            self.world.see_follower(each, log_end_offset)
        self._apply({int(each): start for each, start in (replica_log_start or {}).items()})
        for each, is_live in (live or {}).items():
            if not is_live:
                self.op_kill(int(each))

    def op_delete_records(self, before_offset, cleanup_policy=None, role="leader"):
        world = self.world
        self._set_policy(cleanup_policy or self.policy)
        partition = world.partition if self.is_hosted else None
        asked_broker = BrokerId(1 if role == "leader" else 2)
        try:
            check_request(partition, asked_broker, leader_epoch=None)
            wanted = None if before_offset == -1 else Offset(before_offset)
            result = delete_records(world.image, KEY, wanted)
        except KafkaOnSparkError as error:
            return Answer({"error": kafka_names(error)}, {"low_watermark": "wire-detail"})
        world.commit(*result.records)
        self.asked = result.response
        live = [] if self.is_told else [each for each in world.followers if self._lives(each)]
        self._apply(dict.fromkeys([1, *live], result.response))
        return self.op_delete_result()

    def _set_policy(self, cleanup_policy):
        self.world.configure("cleanup.policy", cleanup_policy)

    def op_delete_result(self):
        mark = low_watermark(self.world.image, self.world.partition, self._log_starts())
        return {"low_watermark": mark, "pending": mark < self.asked}

    def op_beginning_offset(self):
        return offsets_of(self.world.partition).log_start_offset

    def op_restart_all(self):
        """A restart leaves what is stored, the tables and the metadata log, and nothing else."""
        snapshot = snapshot_records(self.world.image)
        self.world.image = MetadataImage()
        self.world.commit(*snapshot)

    def op_log_start_on_all_replicas(self):
        starts = sorted(set(self._log_starts().values()))
        return starts[0] if len(starts) == 1 else starts

    def op_follower_log_start(self, replica, offset):
        self._apply({replica: offset})

    def op_kill(self, replica):
        self.world.commit(*fence_broker(self.world.image, _broker(replica), "killed").records)

    def op_append(self, count):
        self.world.append(*[1] * count)
        for each in self.world.followers:
            if self._lives(each):
                self._fetch(each)
        self.world.decide_high_watermark()

    def op_start(self, replica):
        broker_id = _broker(replica)
        self.world.commit(*unfence_broker(self.world.image, broker_id, "started").records)
        self._fetch(broker_id)
        self.world.commit(*conclude(self.world.image, [self.world.report()]).records)
        state = self.world.followers[broker_id]
        return {
            "log_start_offset": state.log_start_offset,
            "log_end_offset": state.log_end_offset,
        }

    def op_consume_from(self, offset):
        """Read from `offset`, or from the start if that is gone (auto.offset.reset=earliest)."""
        try:
            order = plan_read(
                self.world.image, KEY, start_offset=Offset(offset), end_offset=Offset(2**62)
            )
        except OffsetOutOfRangeError:
            order = plan_reads(self.world.image, TOPIC)[0]
        return {"records": order.end_offset - order.start_offset}

    def _fetch(self, broker_id):
        fetched = fetch_once(self.world, broker_id)
        self.world.followers[broker_id] = fetched.follower

    def _lives(self, broker_id):
        return self.world.image.is_eligible(broker_id)

    def _log_starts(self):
        starts = {each: state.log_start_offset for each, state in self.world.followers.items()}
        return {BrokerId(1): self.world.leader.log_start_offset, **starts}

    def _apply(self, starts):
        for each, start in starts.items():
            state = self.world.leader if each == 1 else self.world.followers[each]
            change = operations.advance_log_start(state, Offset(start))
            after = state if change is None else state.apply(change)
            if each == 1:
                self.world.leader = after
            else:
                self.world.followers[each] = after


def low_watermark(image, partition, log_starts):
    """Return the offset below which no live replica has records any more.

    Of a replica that is not in `log_starts` all records count. Source:
    Partition.lowWatermarkIfLeader.
    """
    live = [each for each in partition.replicas if image.is_eligible(each)]
    return min((log_starts.get(each, Offset(0)) for each in live), default=Offset(0))


def _broker(replica):
    return BrokerId(2 if replica == "follower" else replica)

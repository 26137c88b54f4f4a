"""A client that sends what a test says, well formed or not, by Kafka's own schemas."""

import socket
import struct
from datetime import timedelta
from io import BytesIO

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_on_spark.gateway.wire import FETCH, PRODUCE


def payload(key, version, kind):
    module = load_payload_module(key, version, kind)
    ending = "Request" if kind is EntityType.request else "Response"
    [found] = (
        each
        for name, each in vars(module).items()
        if name.endswith(ending) and getattr(each, "__type__", None) is kind
    )
    return module, found


def batch(values, *, producer=(-1, -1, -1), codec=0, key=None, headers=(), time_ms=1_000):
    """Return a record batch; `producer`: id, epoch and base sequence."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, *producer, 1 << 24)
    for offset, value in enumerate(values):
        assert builder.append(offset, time_ms + offset, key, value, list(headers)) is not None
    return bytes(builder.build())


class RawClient:
    """One connection."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=20)
        self._number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, key, version, /, **fields):
        """Send a request; return what tells its answer."""
        _, request = payload(key, version, EntityType.request)
        self._number += 1
        header = request.__header_schema__
        named = {} if header.__version__ == 0 else {"client_id": "raw"}
        buffer = BytesIO()
        entity_writer(header)(
            buffer,
            header(
                request_api_key=key,
                request_api_version=version,
                correlation_id=self._number,
                **named,
            ),
        )
        entity_writer(request)(buffer, request(**fields))
        self.send_bytes(struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue())
        return key, version, self._number

    def send_bytes(self, content):
        self.socket.sendall(content)

    def receive(self, asked):
        """Return the next answer, which must be to `asked`."""
        key, version, number = asked
        frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        _, response = payload(key, version, EntityType.response)
        header, size = entity_reader(response.__header_schema__)(frame, 0)
        assert header.correlation_id == number
        answer, end = entity_reader(response)(frame, size)
        assert size + end == len(frame)
        return answer

    def ask(self, key, version, /, **fields):
        return self.receive(self.send(key, version, **fields))

    def is_hung_up(self):
        """Return whether the gateway has hung up, without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size):
        content = b""
        while len(content) < size:
            more = self.socket.recv(size - len(content))
            assert more, "the gateway has hung up"
            content += more
        return content

    def send_produce(self, topic, batches, *, acks=-1, version=9):
        """Send batches by partition."""
        module, _ = payload(PRODUCE, version, EntityType.request)
        data = module.TopicProduceData(
            name=topic,
            partition_data=tuple(
                module.PartitionProduceData(index=number, records=content)
                for number, content in batches.items()
            ),
        )
        return self.send(
            PRODUCE,
            version,
            acks=acks,
            timeout=timedelta(seconds=10),
            topic_data=(data,),
            transactional_id=None,
        )

    def produce(self, topic, batches, **how):
        """Return error code and base offset by partition."""
        return produced(self.receive(self.send_produce(topic, batches, **how)))

    def fetch(self, topic, offset, *, partition=0, wait_s=0.0, bytes_max=1 << 20, epoch=-1):
        """Return the answer for one partition."""
        module, _ = payload(FETCH, 12, EntityType.request)
        asked = module.FetchPartition(
            partition=partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=bytes_max,
        )
        answer = self.ask(
            FETCH,
            12,
            max_wait=timedelta(seconds=wait_s),
            min_bytes=1,
            max_bytes=1 << 26,
            topics=(module.FetchTopic(topic=topic, partitions=(asked,)),),
            forgotten_topics_data=(),
        )
        [[found]] = [each.partitions for each in answer.responses]
        return found


def produced(answer):
    [topic] = answer.responses
    return {
        each.index: (int(each.error_code), each.base_offset) for each in topic.partition_responses
    }

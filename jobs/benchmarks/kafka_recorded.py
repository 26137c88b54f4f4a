"""What Apache Kafka took for the same work: recorded figures, not part of a run.

Apache Kafka 4.3.1, three combined nodes (KRaft) on loopback, replication factor 3,
min.insync.replicas 2, acks=all, nothing flushed; Spark 4.2.0 `local[2]` with its Kafka connector
4.2.0, kafka-clients 3.9.2 (plain Java 4.3.1). 2 virtual cores (KVM, Xeon), 23 GiB, ext4 on a
virtio disk, Linux 6.18, Java 17: a machine of the kind that the figures of docs/measured.md are
from. They were measured before 2026-11-21; the record has no day. The rows are those of
`Bench.frame`.
"""

from typing import Final

APPEND: Final = "13.3 s tuned, 18.0 s by default, where Parquet took 7.1 s"
READ: Final = "2.5 s tuned, 6.2 s by default, where Delta took 1.6 s"
STREAM: Final = "5.3 s, where Delta's batch read took 1.6 s"
MICRO_BATCH: Final = "623 ms; 111 ms with fetch.max.wait.ms=5"
SMALL_PLAIN: Final = "1.2 ms (confluent-kafka), 1.8 ms (kafka-python)"
SMALL_SPARK: Final = "92 and 108 ms in two passes"
PRODUCER: Final = "315,000 a second (Java, one thread, 5,000,000 records), not flushed"
NEW_PARTITIONS: Final = "8.7 s (Java), 13.5 s (librdkafka), not flushed"
DISK: Final = "3.4 × with zstd, 6.5 × without compression"
FAILOVER: Final = "0.04 to 0.08 s at 8 partitions, 1.3 to 1.7 s at 2,000, after the fencing"

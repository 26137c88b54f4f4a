"""The command line `kafka-on-spark`: Kafka's verbs and options, thin over the library.

Reading order: `application` (the verbs, errors, exit codes), `options` (what verbs share),
`session` (a cluster opened for one call, and the rehearsal of a change), `output` (tables, JSON,
progress, questions), `kafka_files` (the files of Kafka's tools), then a module a family of
verbs. Nothing is decided here: what a verb changes is a decision of `controller/`.
"""

from kafka_on_spark.cli.application import main

__all__ = ["main"]

"""The only code that knows Spark: sessions, executor tasks, `format("kafka_on_spark")`.

In: a session, frames, options.
Out: orders to executors and their answers. `discovery` is where Spark finds the data source.
"""

"""The only code that knows Spark: sessions, executor tasks, `format("kafka_on_spark")`.

In reading order: `session` makes one with this project's settings, `tasks` is what executors run,
`task_runner` runs it, `data_source` and `views` are how a topic is read and written by Spark;
`discovery` is the folder that Spark finds the data source in. Nothing here decides anything about
a log: tasks carry out an order and answer with a row.
"""

"""What the address of a Spark master says. Apart from `jvm`, which imports pyspark: processes that
have no session ask, too."""


def is_local(master: str | None) -> bool:
    """Return whether executors are threads of the driver's JVM."""
    return master is not None and (master == "local" or master.startswith("local["))

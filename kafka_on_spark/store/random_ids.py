"""Adapts the system's randomness to the ids and random numbers that decisions are given."""

import random
from typing import Final
from uuid import uuid4

from kafka_on_spark.metadata.result import IdSource


def new_uuid() -> str:
    """Return a new id: 32 hexadecimal digits."""
    return uuid4().hex


ID_SOURCE: Final = IdSource(new_uuid=new_uuid, random_below=random.randrange)
"""Gives the ids and random numbers of this process's decisions."""

"""Turns an Arrow schema into Delta's."""

from functools import lru_cache

import pyarrow as pa
from deltalake import Schema


@lru_cache(maxsize=8)
def delta_schema(schema: pa.Schema) -> str:
    """Return an Arrow schema as the JSON of Delta's."""
    return Schema.from_arrow(schema).to_json()

"""What every commit to a Delta table passes, so that delta-rs neither retries nor runs hooks."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, PostCommitHookProperties, Schema, Transaction

# The default hooks list the whole log on every commit.
HOOKS_OFF: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@lru_cache(maxsize=8)
def delta_schema(schema: pa.Schema) -> Schema:
    """Return an Arrow schema as Delta's."""
    return Schema.from_arrow(schema)


def commit_properties(
    write_id: str, counters: Mapping[str, int], operation: str = "create"
) -> CommitProperties:
    """Return what makes a commit conditional and names it; `counters` become `txn` actions."""
    return CommitProperties(
        custom_metadata={"writeId": write_id, "op": operation},
        max_commit_retries=0,
        app_transactions=[Transaction(name, value) for name, value in counters.items()],
    )

"""What a flush is of, in words that name the place in the protocol: mutants leave out one kind."""

import re
from typing import Final

_HEX: Final = "[0-9a-f]{32}"
_METADATA: Final = rf"__cluster_metadata-0-{_HEX}"
_KINDS: Final = (
    (rf".*/_race-{_HEX}(/.*)?|.*/_probe-{_HEX}", "a root's test"),
    (rf".*/{_METADATA}/_delta_log/\d{{20}}\.json", "a metadata commit"),
    (rf".*/{_METADATA}/_delta_log/\d{{20}}\.checkpoint\.parquet", "a metadata checkpoint"),
    (rf".*/{_METADATA}/\d{{20}}-{_HEX}\.parquet", "metadata rows"),
    (r".*/_delta_log/\d{20}\.json", "a replica's commit"),
    (r".*/_delta_log/\d{20}\.checkpoint\.parquet", "a replica's checkpoint"),
    (r".*/_delta_log/_last_checkpoint", "a hint at a checkpoint"),
    (r".*/\d+-[0-9a-f]+-[0-9a-f]+\.parquet", "a segment"),
    (r".*/meta\.properties", "an identity"),
    (r".*/snapshots/.*\.parquet", "a snapshot"),
)
_FOLDERS: Final = (
    (rf".*/_race-{_HEX}(/.*)?", "a root's test"),
    (rf".*/{_METADATA}/_delta_log", "the folder of metadata commits"),
    (rf".*/{_METADATA}", "the metadata table's folder"),
    (r".*/_delta_log", "the folder of a replica's commits"),
    (rf".*-{_HEX}/\d+-{_HEX}", "a replica's folder"),
    (rf".*-{_HEX}", "a topic's folder"),
    (r".*/snapshots", "the folder of snapshots"),
    (r".*/meta", "the metadata root"),
    (r".*/broker-\d+", "a broker's root"),
)


def kind_of_flush(path: str, before: str, *, is_folder: bool) -> str:
    """Return what a flush of a path is of; `before`: the path of the flush before it."""
    for pattern, kind in _FOLDERS if is_folder else _KINDS:
        if re.fullmatch(pattern, path):
            is_after = path.endswith("_delta_log") and before.endswith(".checkpoint.parquet")
            return f"{kind} after a checkpoint" if is_after else kind
    return "a folder above a root" if is_folder else f"another file: {path}"

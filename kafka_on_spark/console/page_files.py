"""The files of the page, by their paths; those below recorded/ are for a page without a server."""

from importlib.resources import files
from typing import Final

FOLDERS: Final = ("", "views")
RECORDED: Final = "recorded"


def page_files() -> dict[str, bytes]:
    """Return what the server gives to browsers."""
    return {path: content for folder in FOLDERS for path, content in _files(folder).items()}


def recorded_files() -> dict[str, bytes]:
    """Return the same files for a page without a server."""
    instead = _files(RECORDED)
    return page_files() | {path.removeprefix(f"{RECORDED}/"): instead[path] for path in instead}


def _files(folder: str) -> dict[str, bytes]:
    root = files("kafka_on_spark.console").joinpath("page")
    found = root.joinpath(folder) if folder else root
    before = f"{folder}/" if folder else ""
    return {f"{before}{each.name}": each.read_bytes() for each in found.iterdir() if each.is_file()}

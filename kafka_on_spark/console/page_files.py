"""The files of the page, by their paths."""

from importlib.resources import files
from typing import Final

FOLDERS: Final = ("", "views")


def page_files() -> dict[str, bytes]:
    """Return what the server gives to browsers."""
    return {path: content for folder in FOLDERS for path, content in _files(folder).items()}


def _files(folder: str) -> dict[str, bytes]:
    root = files("kafka_on_spark.console").joinpath("page")
    found = root.joinpath(folder) if folder else root
    before = f"{folder}/" if folder else ""
    return {f"{before}{each.name}": each.read_bytes() for each in found.iterdir() if each.is_file()}

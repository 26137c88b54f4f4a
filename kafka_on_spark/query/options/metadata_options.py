"""Options of reads of the metadata log itself: `option("metadata", "true")`.

Pure. Apart from those of reads of topics, since only a few mean the same here: the log has one
partition, nothing of it is deleted, and nobody reads it as a member of a group. Any other option is
refused, so that no query seems to read less, or more, than it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, whole_number
from kafka_on_spark.query.offsets.positions import EARLIEST, LATEST
from kafka_on_spark.query.options.client_options import spelled, split_client_options
from kafka_on_spark.query.options.source_options import (
    SOURCE_OPTIONS,
    STORAGE_PREFIX,
    check_stream,
    cluster_root,
    ignored_in_batches,
    known_options,
    positive,
    storage_options,
)

_MEANT: Final = ("cluster", "metadata", "startingoffsets", "endingoffsets", "maxoffsetspertrigger")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """The checked options of a read of the metadata log.

    Attributes:
        cluster: The metadata roots.
        starting: Where a new query, or a batch, begins: an offset, EARLIEST or LATEST.
        ending: Where a batch ends: an offset or LATEST.
        records_max: Records of a micro-batch, unless one decision has more; None: no bound.
        warnings: Sentences to log once.
        storage: Storage options.
    """

    cluster: str
    starting: Offset | str
    ending: Offset | str = LATEST
    records_max: int | None = None
    warnings: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_metadata_source(options: Mapping[str, str], *, is_stream: bool) -> MetadataOptions:
    """Return the checked options of a read of the metadata log.

    Raises:
        InvalidRequestError: One is missing, unknown, or means nothing here.
    """
    client, rest = split_client_options(options)
    given = known_options(rest, SOURCE_OPTIONS)
    _check_meant([*(SOURCE_OPTIONS[name] for name in given), *map(spelled, client)])
    if is_stream:
        check_stream(given)
    starting = _position(given, "startingoffsets", (EARLIEST, LATEST))
    ending = _position(given, "endingoffsets", (LATEST,))
    if not is_stream:
        _check_batch(starting, ending)
    return MetadataOptions(
        cluster=cluster_root(given),
        starting=(LATEST if is_stream else EARLIEST) if starting is None else starting,
        ending=LATEST if ending is None else ending,
        records_max=positive(
            given, "maxoffsetspertrigger", "maxOffsetsPerTrigger must be positive"
        ),
        warnings=tuple(ignored_in_batches(given, is_stream=is_stream)),
        storage=storage_options(options),
    )


def _check_meant(names: list[str]) -> None:
    meaningless = [name for name in names if name.lower() not in _MEANT]
    if meaningless:
        meant = ", ".join(SOURCE_OPTIONS[name] for name in _MEANT)
        raise InvalidRequestError(
            f"option {meaningless[0]!r} means nothing where 'metadata' is true, for the metadata"
            f" log is one log, with neither topics nor groups: leave it out; allowed are {meant}"
            f" and {STORAGE_PREFIX}*"
        )


def _position(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> Offset | str | None:
    text = given.get(name)
    if text is None:
        return None
    if text.strip().lower() in words:
        return text.strip().lower()
    try:
        offset = whole_number(text.strip())
    except ValueError:
        offset = -1
    if offset < 0:
        raise InvalidRequestError(
            f"option {SOURCE_OPTIONS[name]!r} can't be {text!r} where 'metadata' is true: give"
            f" {', '.join(words)} or an offset of the metadata log, such as 23"
        )
    return Offset(offset)


def _check_batch(starting: Offset | str | None, ending: Offset | str | None) -> None:
    if starting == LATEST:
        raise InvalidRequestError(
            "option 'startingOffsets' can't be 'latest' for a batch, which would be empty: give"
            " earliest or an offset"
        )
    if isinstance(starting, int) and isinstance(ending, int) and starting > ending:
        raise InvalidRequestError(
            f"option 'startingOffsets' can't be {starting} with 'endingOffsets' at {ending}: a"
            " batch can't begin after its end"
        )

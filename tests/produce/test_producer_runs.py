"""Which epoch the next append of a producer gets, and which is refused since it may stand."""

import pytest

from kafka_on_spark.base.errors import ProducerFencedError, UnknownProducerIdError
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    ProducerRecord,
    RemoveProducerRecord,
    Stamp,
)
from kafka_on_spark.produce.producer_runs import NextAppend, OwnRun, begin_append


def replayed(image, *records):
    return image.replay(
        MetadataBatch(base_offset=image.offset, stamp=Stamp(time_ms=1), records=records)
    )


def run(epoch, first_sequence=None):
    return ProducerRecord(producer_id="p", producer_epoch=epoch, first_sequence=first_sequence)


GONE = RemoveProducerRecord(producer_id="p", producer_epoch=3)
NEW = MetadataImage()
LIVES = replayed(NEW, run(3))
EXPIRED = replayed(LIVES, GONE)
CAME_BACK = replayed(EXPIRED, run(4, first_sequence=8))


def own(epoch, last, *, is_only=True):
    return OwnRun(producer_epoch=epoch, last=last, is_only=is_only)


def begun(image, sequence, mine=None, **named):
    """Return the epoch, and what a record says of it: "" for none, and the first sequence."""
    append = NextAppend(producer_id="p", sequence=sequence, **named)
    result = begin_append(image, append, mine)
    if not result.records:
        return result.response.producer_epoch, ""
    [record] = result.records
    assert record.producer_epoch == result.response.producer_epoch
    return record.producer_epoch, record.first_sequence


# fmt: off
BEGUN = [  # image   sequence, own run        what else the caller says   epoch, first sequence
    pytest.param(NEW,       7, None,                  {},                    (0, None), id="a new id"),
    pytest.param(NEW,       7, None,                  {"producer_epoch": 5}, (5, None), id="a new id with an epoch"),
    pytest.param(LIVES,     0, None,                  {},                    (4, None), id="a run after another"),
    pytest.param(LIVES,     0, own(3, 7),             {},                    (3, ""),   id="a run that goes on"),
    pytest.param(LIVES,     0, None,                  {"producer_epoch": 3}, (3, ""),   id="a run with its epoch goes on"),
    pytest.param(EXPIRED,   8, own(3, 7),             {},                    (4, 8),    id="above all that was tried"),
    pytest.param(EXPIRED,   7, own(3, 7),             {"is_untried": True},  (4, 7),    id="never tried"),
    pytest.param(EXPIRED,   7, None,                  {"expired_below": 4},  (4, 7),    id="vouched for"),
    pytest.param(EXPIRED,   7, None,                  {"producer_epoch": 6}, (6, 7),    id="vouched for by an epoch"),
    pytest.param(CAME_BACK, 8, None,                  {},                    (5, None), id="another process at the first sequence"),
    pytest.param(CAME_BACK, 9, None,                  {},                    (5, None), id="another process above it"),
    pytest.param(CAME_BACK, 8, own(4, 9),             {},                    (4, ""),   id="a retry of what brought it back"),
    pytest.param(CAME_BACK, 7, own(4, 8),             {"is_untried": True},  (4, ""),   id="never tried, below the first sequence"),
    pytest.param(CAME_BACK, 7, None,                  {"expired_below": 5},  (5, 7),    id="vouched for, below the first sequence"),
    pytest.param(CAME_BACK, 7, own(4, 8),             {"expired_below": 5},  (5, 7),    id="vouched for by the run that brought it back"),
    pytest.param(CAME_BACK, 7, None,                  {"producer_epoch": 9}, (9, 7),    id="vouched for by an epoch, below the first sequence"),
]
REFUSED = [
    pytest.param(EXPIRED,   8, None,                      {},                    id="another process, with any sequence"),
    pytest.param(EXPIRED,   7, own(3, 7),                 {},                    id="what this run has tried"),
    pytest.param(EXPIRED,   8, own(2, 7),                 {},                    id="a newer run may have tried it"),
    pytest.param(EXPIRED,   8, own(3, 7, is_only=False),  {},                    id="an older run may have tried it"),
    pytest.param(EXPIRED,   7, None,                      {"expired_below": 3},  id="vouched for before it expired"),
    pytest.param(EXPIRED,   7, None,                      {"producer_epoch": 3}, id="an epoch that has expired"),
    pytest.param(CAME_BACK, 7, None,                      {},                    id="another process that comes late"),
    pytest.param(CAME_BACK, 0, None,                      {},                    id="from the beginning"),
    pytest.param(CAME_BACK, 7, own(4, 8),                 {},                    id="below what brought it back"),
    pytest.param(CAME_BACK, 7, None,                      {"expired_below": 4},  id="vouched for before it came back"),
    pytest.param(CAME_BACK, 7, None,                      {"producer_epoch": 4}, id="vouched for by the epoch that came back"),
]
# fmt: on


@pytest.mark.parametrize("image, sequence, mine, said, expected", BEGUN)
def test_an_append_gets_its_epoch_and_an_id_that_comes_back_its_first_sequence(
    image, sequence, mine, said, expected
):
    assert begun(image, sequence, mine, **said) == expected


@pytest.mark.parametrize("image, sequence, mine, said", REFUSED)
def test_what_may_stand_in_logs_that_have_forgotten_it_is_refused(image, sequence, mine, said):
    with pytest.raises(UnknownProducerIdError, match=r"give producer_epoch [45] and append"):
        begun(image, sequence, mine, **said)


@pytest.mark.parametrize("image", [LIVES, CAME_BACK])
@pytest.mark.parametrize("sequence", [7, 8])
def test_a_run_from_before_another_one_is_fenced(image, sequence):
    with pytest.raises(ProducerFencedError):
        begun(image, sequence, own(2, 7))
    with pytest.raises(ProducerFencedError):
        begun(image, sequence, producer_epoch=2)


def test_a_later_run_and_a_renewal_keep_the_first_sequence():
    renewed = ProducerRecord(producer_id="p", producer_epoch=5, renewed_at_ms=2)
    image = replayed(CAME_BACK, run(5), renewed)

    assert image.first_sequences == {"p": 8}
    rebuilt = replayed(NEW, *snapshot_records(image))
    assert rebuilt.first_sequences == {"p": 8}


def test_an_id_that_expires_again_has_no_first_sequence():
    image = replayed(CAME_BACK, RemoveProducerRecord(producer_id="p", producer_epoch=4))

    assert image.first_sequences == {}
    assert begun(image, 12, own(4, 11)) == (5, 12)


def test_a_run_is_the_only_one_if_the_id_was_new_or_came_back():
    def is_only(image, sequence, mine=None, **named):
        append = NextAppend(producer_id="p", sequence=sequence, **named)
        return begin_append(image, append, mine).response.is_only

    assert is_only(NEW, 0)
    assert is_only(EXPIRED, 8, own(3, 7))
    assert is_only(CAME_BACK, 9, own(4, 8))
    assert not is_only(LIVES, 0)
    assert not is_only(CAME_BACK, 7, own(4, 8), expired_below=5)

"""Parts that are made once somebody asks for them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from kafka_on_spark.storage.calls.made_once import made_once


class Whole:
    def __init__(self):
        self.made = []
        self.may_end = Event()
        self.may_end.set()

    @made_once
    def part(self):
        """A part that is made of another one."""
        self.made.append("part")
        self.may_end.wait()
        return [self.other]

    @made_once
    def other(self):
        self.made.append("other")
        return object()

    @made_once
    def refused(self):
        self.made.append("refused")
        raise ValueError(len(self.made))


def test_nothing_is_made_before_somebody_asks():
    whole = Whole()

    assert not Whole.part.is_made(whole)
    assert whole.part is whole.part
    assert whole.made == ["part", "other"]
    assert Whole.part.is_made(whole)
    assert not Whole.part.is_made(Whole())


def test_all_threads_that_ask_at_once_get_the_same():
    whole = Whole()
    whole.may_end.clear()
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(lambda: whole.part) for _ in range(8)]
        whole.may_end.set()

    assert len({id(each.result()) for each in asked}) == 1
    assert whole.made == ["part", "other"]


def test_what_could_not_be_made_is_made_by_the_next_that_asks():
    whole = Whole()
    for count in (1, 2):
        with pytest.raises(ValueError, match=str(count)):
            _ = whole.refused

    assert not Whole.refused.is_made(whole)


def test_a_part_has_the_words_of_its_method():
    assert Whole.part.__doc__ == "A part that is made of another one."

"""Which thread tries again what an append's first try has left."""

import threading

import pytest

from kafka_on_spark.cluster.producing import retrying
from kafka_on_spark.cluster.producing.retrying import Retriers
from tests.cluster.producing.sending import WAIT_S
from tests.unit.service.append.produce.sent import key, part, record


def new_retriers():
    return Retriers(threading.Condition(threading.RLock()))


def test_what_is_left_later_is_tried_beside_what_is_tried_already():
    begun, opened = threading.Event(), threading.Event()

    def retry(delivery):
        if delivery.keys == {key(0)}:
            assert opened.wait(WAIT_S)
        else:
            begun.set()
        delivery.give_up(ZeroDivisionError())

    retriers = new_retriers()
    for number in (0, 1):
        retriers.begin([part(record(), partition=number)], retry)

    assert begun.wait(WAIT_S)
    opened.set()
    for each in retriers.threads:
        each.join()


def test_beyond_the_most_threads_one_takes_more_between_its_tries(monkeypatch):
    monkeypatch.setattr(retrying, "THREADS_MAX", 1)
    begun, opened, tries = threading.Event(), threading.Event(), []

    def retry(delivery):
        tries.append(delivery.keys)
        begun.set()
        assert opened.wait(WAIT_S)
        if len(tries) == 2:
            delivery.give_up(ZeroDivisionError())

    retriers = new_retriers()
    retriers.begin([part(record(), partition=0)], retry)
    assert begun.wait(WAIT_S)
    retriers.begin([part(record(), partition=1)], retry)
    opened.set()
    [thread] = retriers.threads
    thread.join()

    assert tries == [{key(0)}, {key(0), key(1)}]


def test_a_process_without_another_thread_tries_again_in_the_one_that_it_has(monkeypatch):
    tries = []

    def start(self):
        raise RuntimeError("can't start new thread")

    def retry(delivery):
        tries.append(threading.current_thread())
        if len(tries) == 2:
            delivery.give_up(ZeroDivisionError())

    monkeypatch.setattr(threading.Thread, "start", start)
    new_retriers().begin([part(record())], retry)

    assert tries == [threading.current_thread()] * 2


@pytest.mark.parametrize("is_tried", [True, False])
def test_what_is_cut_off_is_not_tried_again(is_tried):
    tries, lock = [], threading.RLock()

    def retry(delivery):
        tries.append(delivery.keys)
        with lock:
            retriers.cut_off()

    retriers = Retriers(threading.Condition(lock))
    if not is_tried:
        with lock:
            retriers.cut_off()
    retriers.begin([part(record())], retry)
    for each in retriers.threads:
        each.join()

    assert tries == [{key(0)}] * is_tried

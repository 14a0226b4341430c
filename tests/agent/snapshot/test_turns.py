"""Turns are given in the order in which they were asked for."""

import threading
import time

import pytest

from podferry_agent.snapshot.turns import Turns
from tests.agent.runtime.harness import until

LIMIT = 20.0


def test_who_waited_longest_is_next_also_if_the_last_one_asks_again_at_once() -> None:
    turns, order, threads = Turns(1), list[int](), list[threading.Thread]()

    def take(number: int) -> None:
        with turns:
            order.append(number)

    with turns:
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            until(lambda: len(turns._waiting) == number + 1)  # noqa: B023 (used at once)
    take(99)
    for thread in threads:
        thread.join(LIMIT)
    assert order == [0, 1, 2, 3, 4, 99]


def test_as_many_have_a_turn_as_there_are() -> None:
    turns, inside, most = Turns(2), list[int](), list[int]()
    lock = threading.Lock()

    def take(number: int) -> None:
        for _ in range(50):
            with turns:
                with lock:
                    inside.append(number)
                    most.append(len(inside))
                time.sleep(0)
                with lock:
                    inside.remove(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len(most) == 200
    assert max(most) <= 2


def test_a_turn_that_ends_in_an_error_goes_to_the_next_one() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns:
        1 / 0  # noqa: B018
    with turns:
        assert turns._free == 0


def test_items_come_in_order_and_between_them_others_have_their_turn() -> None:
    turns = Turns(1)
    seen, others = list[int](), 0
    for number in turns.each(iter(range(1000))):
        seen.append(number)
        with turns:  # would wait for ever if the walk kept its turn
            others += 1
    assert seen == list(range(1000))
    assert others == 1000
    assert list(turns.each(iter(()))) == []

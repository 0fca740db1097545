"""Room in a shared context: never more than there is, nobody overtaken for ever, nobody waiting in vain."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from compeer.models.embedded import ContextBudget


def test_never_more_is_taken_than_there_is() -> None:
    room, least = ContextBudget(1000), []

    def work(number: int) -> None:
        with room.taken("x" * 100, 100 + number * 20, threading.Event()):
            least.append(room.free)
            time.sleep(0.002)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert min(least) >= 0
    assert max(least) < 1000
    assert room.free == 1000


def test_a_request_larger_than_everything_gets_everything() -> None:
    room = ContextBudget(100)
    with room.taken("长" * 1000, 5000, threading.Event()):
        assert room.free == 0
    assert room.free == 100


def test_room_is_given_back_after_a_failure() -> None:
    room = ContextBudget(100)
    try:
        with room.taken("", 60, threading.Event()):
            raise RuntimeError
    except RuntimeError:
        pass
    assert room.free == 100


def test_a_large_request_is_not_overtaken_for_ever() -> None:
    room, order, go = ContextBudget(100), [], threading.Event()

    def small(number: int) -> None:
        with room.taken("", 40, threading.Event()):
            order.append(f"small {number}")
            if number == 0:
                go.wait(5)

    def large() -> None:
        with room.taken("", 100, threading.Event()):
            order.append("large")

    threads = [threading.Thread(target=small, args=(0,)), threading.Thread(target=large)]
    threads += [threading.Thread(target=small, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
        time.sleep(0.03)  # they come in this order
    go.set()
    for thread in threads:
        thread.join(5)
    assert order[:2] == ["small 0", "large"]
    assert len(order) == 6


def test_an_abandoned_request_does_not_hold_up_the_others() -> None:
    room, abandoned, done = ContextBudget(100), threading.Event(), threading.Event()

    def wait() -> None:
        with room.taken("", 100, abandoned):
            done.set()

    with room.taken("", 60, threading.Event()):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not done.wait(0.3)
        abandoned.set()
        assert done.wait(2)
        thread.join()
    assert room.free == 100

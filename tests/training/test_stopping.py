from __future__ import annotations

import os
import signal
import threading

import pytest

from relatum.training.stopping import Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_is_noted_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Stopping() as stopping:
        seen = [stopping.asked]
        os.kill(os.getpid(), number)
        seen.append(stopping.asked)
        assert seen == [False, True]
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before


def test_second_signal_acts_as_ever() -> None:
    with Stopping():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back_without_a_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stopping():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_may_train_without_signals() -> None:
    found: list[bool] = []

    def work() -> None:
        with Stopping() as stopping:
            found.append(stopping.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]

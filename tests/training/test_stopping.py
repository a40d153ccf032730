"""Signals: the first asks, the second ends; exit codes are those of shells."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from masp.training.stopping import StoppedBySignal, StopRequest


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signal_is_noted_and_the_old_handler_comes_back(name, code):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert signal.getsignal(number) != before and stop.number == 0
        os.kill(os.getpid(), number)
        assert stop.number == number
        assert signal.getsignal(number) == before  # so that a second signal ends the process
    assert StoppedBySignal(stop.number, "stopped").exit_code == code


def test_handlers_of_others_stay():
    def own(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, own)
    try:
        with StopRequest():
            assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_leave_signals_alone():
    before = signal.getsignal(signal.SIGINT)
    inside = []

    def listen():
        with StopRequest():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert inside == [before]

"""Signals: the first asks, the second ends; exit codes are those of shells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest

from masp.training.stopping import StoppedBySignal, StopRequest


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signal_is_noted_and_the_old_handler_comes_back(name, code, request):
    number = getattr(signal, name)
    before = signal.SIG_DFL if name != "SIGINT" else signal.default_int_handler
    # Jobs in the background and under nohup begin with some signals ignored.
    request.addfinalizer(partial(signal.signal, number, signal.signal(number, before)))
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


COMPUTES_FOREVER = """
import ctypes, signal, threading
from masp.training import stopping
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may ignore it
stopping.PATIENCE_SECONDS = 0.05
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
with stopping.StopRequest():
    lock(mutex)
    threading.Timer(0.3, print, ("begun",), {"flush": True}).start()
    lock(mutex)  # like a compilation: no instruction of Python ends, so no handler runs
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the way to block the main thread is Linux's")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_second_signal_ends_a_process_whose_main_thread_is_busy(name, code):
    command = [sys.executable, "-c", COMPUTES_FOREVER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(getattr(signal, name))
    assert b"a second signal ends at once" in process.stderr.readline()
    assert process.poll() is None
    process.send_signal(getattr(signal, name))
    assert process.wait() == code
    process.communicate()


FORKS = """
import os, signal
from masp.training.stopping import StopRequest
with StopRequest() as stop:
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(7 if signal.set_wakeup_fd(-1) == -1 else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert stop.number == 0 and stop._watcher is not None
assert signal.set_wakeup_fd(-1) == -1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_does_not_stop_its_parent():
    subprocess.run([sys.executable, "-c", FORKS], check=True)

"""One thread that determines the energy of ended calls: a closing reading may take 20 ms, which the caller
must not wait for."""
from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import Any, Deque, Optional

__all__ = ["drain", "later"]

_log = logging.getLogger("gpulens")
_MOST = 4096  # above that the caller settles at once, with a wider uncertainty


class _Settler:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: Deque[Any] = deque()
        self._busy = False
        self._thread: Optional[threading.Thread] = None

    def put(self, call: Any) -> bool:
        with self._changed:
            if len(self._calls) >= _MOST:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="gpulens-settle", daemon=True)
                thread.start()
                self._thread = thread
            self._calls.append(call)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._calls:
                    self._changed.wait()
                call = self._calls.popleft()
                self._busy = True
            call.recorder.tell(call, True)
            del call  # and with it the engine and the store, which may end before the next call comes

    def drain(self, seconds: float) -> bool:
        """Waits until all calls put before are recorded. Returns False when `seconds` pass first."""
        if self._thread is None or self._thread is threading.current_thread():  # which cannot wait for itself
            return self._thread is None
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._calls or self._busy:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return not self._calls and not self._busy
        return True


_settler = _Settler()


def later(call: Any) -> bool:
    """Queues a call. Returns False when too many calls wait already, or when no thread can be started."""
    try:
        return _settler.put(call)
    except RuntimeError:  # no more threads, or Python is ending
        return False


def drain(seconds: float = 5.0) -> bool:
    """Waits until all ended calls are recorded. Returns False when `seconds` pass first."""
    return _settler.drain(seconds)


def _in_child() -> None:
    global _settler
    _settler = _Settler()  # the thread, and what waits for it, is the parent's


os.register_at_fork(after_in_child=_in_child)
def _at_exit() -> None:
    if not drain():
        _log.warning("telemetry: ended calls are not recorded: their energy or their store did not respond for 5 s")


atexit.register(_at_exit)

"""Gauges with a function: a thread of Python calls it once a second and sets its result."""
from __future__ import annotations

import logging
import math
import os
import threading
from typing import Any, Callable, Dict, Optional, Tuple

__all__ = ["follow"]

_INTERVAL_SECONDS = 1.0
_log = logging.getLogger("gpulens")
_lock = threading.Lock()
_followed: Dict[int, Tuple[Any, Callable[[], float]]] = {}  # by the gauge's series
_failed: Dict[int, str] = {}  # errors that were logged
_running = False


def follow(series: int, gauge: Any, function: Optional[Callable[[], float]]) -> None:
    """Sets the gauge to function() now and once a second; None ends that, and the gauge keeps its value."""
    global _running
    if function is not None and not callable(function):
        raise TypeError(f"function must be callable or None, not {type(function).__name__}")
    with _lock:
        if function is None:
            _followed.pop(series, None)
            return
        _followed[series] = (gauge, function)
        start, _running = not _running, True
    _set(series, gauge, function)
    if start:
        _start()


def _set(series: int, gauge: Any, function: Callable[[], float]) -> None:
    try:
        gauge.set(function())
        _failed.pop(series, None)
    except Exception as error:  # the value is unknown, and the program goes on
        gauge.set(math.nan)
        text = f"{type(error).__name__}: {error}"
        if _failed.get(series) != text:
            _failed[series] = text
            _log.warning("gauge %r has no value: its function raised %s", gauge, text)


def _start() -> None:
    threading.Thread(target=_run, name="gpulens-gauges", daemon=True).start()


def _run() -> None:
    timer = threading.Event()
    while not timer.wait(_INTERVAL_SECONDS):
        for series, (gauge, function) in list(_followed.items()):
            if series in _followed:
                _set(series, gauge, function)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    if _running:
        _start()


os.register_at_fork(after_in_child=_in_child)

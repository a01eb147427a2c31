"""The event bus of OpenJarvis, for programs without a bus of their own."""
import logging
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Dict, List, Optional

__all__ = ["Event", "EventBus", "EventType"]

_log = logging.getLogger("gpulens")


class EventType(str, Enum):
    """Types of the events that telemetry publishes. Each equals its text."""

    INFERENCE_START = "inference_start"
    INFERENCE_END = "inference_end"
    TELEMETRY_RECORD = "telemetry_record"


@dataclass
class Event:
    """An event. timestamp: Unix seconds."""

    event_type: str
    timestamp: float
    data: Dict[str, Any] = field(default_factory=dict)


class EventBus:
    """Calls subscribers in the publisher's thread, in the order in which they subscribed. Thread-safe.

    An exception of a subscriber is logged; the other subscribers are still called, and publish() returns
    normally.
    """

    def __init__(self, record_history: bool = False) -> None:
        self._lock = threading.Lock()
        self._subscribers: Dict[str, List[Callable[[Event], Any]]] = {}
        self._history: Optional[List[Event]] = [] if record_history else None

    def subscribe(self, event_type: str, callback: Callable[[Event], Any]) -> None:
        """Calls callback(event) for each event of this type from now on."""
        with self._lock:
            self._subscribers.setdefault(event_type, []).append(callback)

    def unsubscribe(self, event_type: str, callback: Callable[[Event], Any]) -> None:
        """Removes a subscription; does nothing where there is none."""
        with self._lock:
            callbacks = self._subscribers.get(event_type, [])
            if callback in callbacks:
                callbacks.remove(callback)

    def publish(self, event_type: str, data: Optional[Dict[str, Any]] = None) -> Event:
        """Calls the subscribers and returns the event."""
        event = Event(event_type, time.time(), data if data is not None else {})
        with self._lock:
            callbacks = list(self._subscribers.get(event_type, ()))
            if self._history is not None:
                self._history.append(event)
        for callback in callbacks:
            try:
                callback(event)
            except Exception:
                _log.warning("a subscriber of %s failed", event_type, exc_info=True)
        return event

    @property
    def history(self) -> List[Event]:
        """All events so far, where record_history was set."""
        with self._lock:
            return list(self._history or ())

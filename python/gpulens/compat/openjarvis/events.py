"""The event bus of OpenJarvis, for programs without a bus of their own."""
import logging
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Dict, List, Optional

__all__ = ["Event", "EventBus", "EventType", "get_event_bus", "reset_event_bus"]

_log = logging.getLogger("gpulens")


class EventType(str, Enum):
    """Types of the events of inference; telemetry publishes the first three. Each equals its text."""

    INFERENCE_START = "inference_start"
    INFERENCE_END = "inference_end"
    TELEMETRY_RECORD = "telemetry_record"
    BATCH_START = "batch_start"
    BATCH_END = "batch_end"


@dataclass
class Event:
    """An event. timestamp: Unix seconds."""

    event_type: str
    timestamp: float
    data: Dict[str, Any] = field(default_factory=dict)


Subscriber = Callable[[Event], Any]


class EventBus:
    """Calls subscribers in the publisher's thread, in the order in which they subscribed. Thread-safe.

    An exception of a subscriber is logged; the other subscribers are still called, and publish() returns
    normally.
    """

    def __init__(self, record_history: bool = False) -> None:
        self._lock = threading.Lock()
        self._subscribers: Dict[str, List[Subscriber]] = {}
        self._history: Optional[List[Event]] = [] if record_history else None

    def subscribe(self, event_type: str, callback: Subscriber) -> None:
        """Calls callback(event) for each event of this type from now on."""
        with self._lock:
            self._subscribers.setdefault(event_type, []).append(callback)

    def unsubscribe(self, event_type: str, callback: Subscriber) -> None:
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

    def clear_history(self) -> None:
        """Forgets all events so far."""
        with self._lock:
            if self._history is not None:
                self._history.clear()


_bus: Optional[EventBus] = None
_bus_lock = threading.Lock()


def get_event_bus(*, record_history: bool = False) -> EventBus:
    """Returns the bus of the process. record_history has an effect in the first call, which makes it."""
    global _bus
    with _bus_lock:
        if _bus is None:
            _bus = EventBus(record_history)
        return _bus


def reset_event_bus() -> None:
    """Makes the next get_event_bus() return a new bus."""
    global _bus
    with _bus_lock:
        _bus = None

"""FastMessageQueue: a queue of four bands of priorities."""
import dataclasses
import enum
from typing import Any, Dict, List, Optional, TypeVar

from ....ring.actor import priority_of
from .queue import MessageQueue

__all__ = ["FastMessageQueue", "PriorityBand", "QueueStats", "get_priority_band"]

T = TypeVar("T")
_LOWEST = (224, 160, 64, 0)  # priority of each band


class PriorityBand(enum.IntEnum):
    """Band of priorities: 224 and above, 160 and above, 64 and above, and the others."""

    SYSTEM = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


def get_priority_band(priority: int) -> PriorityBand:
    """Returns the band of a priority."""
    return PriorityBand(next((band for band, lowest in enumerate(_LOWEST) if priority >= lowest), PriorityBand.LOW))


@dataclasses.dataclass
class QueueStats:
    """Counts of a queue since it was made."""

    total_enqueued: int = 0
    total_dequeued: int = 0
    total_dropped: int = 0
    current_size: int = 0
    peak_size: int = 0
    band_counts: Optional[Dict[str, int]] = None


class FastMessageQueue(MessageQueue[T]):
    """MessageQueue that takes messages by band, those of a band in order of arrival. A full queue blocks.

    serialize: queue the bytes of messages that have serialize(); get() returns the bytes.
    """

    def __init__(self, maxsize: int = 4096, *, kernel_id: str = "", serialize: bool = False) -> None:
        super().__init__(maxsize, kernel_id=kernel_id)
        self._serialize = serialize

    def _rank(self, message: Any) -> int:
        return _LOWEST[get_priority_band(priority_of(message))]

    def _stored(self, message: Any) -> Any:
        return message.serialize() if self._serialize and hasattr(message, "serialize") else message

    def put_batch(self, messages: List[T]) -> int:
        """Adds messages until there is no room. Returns their number."""
        count = 0
        for message in messages:
            if not self.put_nowait(message):
                break
            count += 1
        return count

    def get_batch(self, max_count: int) -> List[T]:
        """Takes at most max_count messages, without waiting."""
        return [self.get_nowait() for _ in range(min(max_count, self.qsize))]

    def get_stats(self) -> Dict[str, Any]:
        """Returns the counts of MessageQueue.get_stats(), peak_size, and band_counts: the messages of each
        band now."""
        sizes = self._items.sizes()
        bands = {band.name.lower(): sizes.get(_LOWEST[band], 0) for band in PriorityBand}
        return {**super().get_stats(), "peak_size": self._items.peak, "band_counts": bands}

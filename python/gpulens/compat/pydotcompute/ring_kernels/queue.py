"""MessageQueue: a bounded queue of messages by priority."""
import asyncio
from typing import Any, Dict, Generic, Optional, TypeVar

from ....errors import InvalidArgumentError
from ....ring.actor import priority_of
from ....ring.errors import QueueFullError, QueueTimeoutError
from ....ring.queues import BoundedQueue, Full
from ..kernels import BackpressureStrategy

__all__ = ["BackpressureStrategy", "MessageQueue"]

T = TypeVar("T")


class MessageQueue(Generic[T]):
    """Bounded queue for the tasks of one event loop; not thread-safe. Messages with a higher priority (0 to
    255, 128 where there is none) are taken first, equal ones in order of arrival.

    maxsize: largest number of messages, at least 1; max_size is another name of it.
    backpressure: what happens to a message for a full queue: BLOCK waits, REJECT raises QueueFullError,
        DROP_OLDEST drops the oldest message of the lowest priority, or the new one where its priority is
        lower than that of all others.
    use_priority: False: in order of arrival.
    kernel_id: the kernel named in errors.

    Raises InvalidArgumentError for a size below 1 and for an unknown policy.
    """

    def __init__(
        self,
        maxsize: int = 4096,
        *,
        backpressure: BackpressureStrategy = BackpressureStrategy.BLOCK,
        use_priority: bool = True,
        kernel_id: str = "",
        max_size: Optional[int] = None,
    ) -> None:
        limit = maxsize if max_size is None else max_size
        if limit < 1:
            raise InvalidArgumentError(f"maxsize must be at least 1; got {limit}")
        try:
            policy = BackpressureStrategy(backpressure)
        except ValueError:
            raise InvalidArgumentError(f"backpressure must be one of {', '.join(BackpressureStrategy)}; got {backpressure!r}") from None
        self._kernel_id = kernel_id
        self._use_priority = use_priority
        self._enqueued = self._dequeued = self._dropped = 0
        self._items = BoundedQueue(limit, policy.value, self._on_drop)

    def _on_drop(self, reason: str, message: T) -> None:
        self._dropped += 1

    def _rank(self, message: T) -> int:
        return priority_of(message) if self._use_priority else 0

    def _stored(self, message: T) -> Any:
        return message

    async def put(self, message: T, *, timeout: Optional[float] = None) -> bool:
        """Adds a message. Returns False where DROP_OLDEST dropped the new message.

        Raises QueueFullError when there is no room: at once with REJECT, within `timeout` seconds (None:
        without end) with BLOCK.
        """
        try:
            taken = await self._items.put(self._stored(message), self._rank(message), timeout)
        except (Full, asyncio.TimeoutError):
            raise QueueFullError(self._kernel_id, self.maxsize) from None
        self._enqueued += taken
        return taken

    def put_nowait(self, message: T) -> bool:
        """Adds a message without waiting. Returns False where there is no room for it."""
        try:
            taken = self._items.put_now(self._stored(message), self._rank(message))
        except Full:
            return False
        self._enqueued += taken
        return taken

    async def get(self, *, timeout: Optional[float] = None) -> T:
        """Waits for a message and takes it. Raises QueueTimeoutError, which is also an
        asyncio.TimeoutError, when none arrives within `timeout` seconds (None: without end)."""
        try:
            message = await self._items.get(timeout)
        except asyncio.TimeoutError:
            raise QueueTimeoutError(self._kernel_id, timeout or 0.0, "receive") from None
        self._dequeued += 1
        return message

    def get_nowait(self) -> Optional[T]:
        """Takes the next message; None where there is none."""
        if self.empty:
            return None
        self._dequeued += 1
        return self._items.get_now()

    def peek(self) -> Optional[T]:
        """Returns the next message, which stays in the queue; None where there is none."""
        return self._items.next_item()

    def clear(self) -> int:
        """Removes all messages, wakes senders that wait for room, and returns the number of messages."""
        count = self.qsize
        for _ in range(count):
            self._items.get_now()
        return count

    @property
    def maxsize(self) -> int:
        """Largest number of messages."""
        return self._items.limit

    @property
    def qsize(self) -> int:
        """Number of messages in the queue."""
        return self._items.size

    @property
    def empty(self) -> bool:
        """Whether there is no message."""
        return self._items.size == 0

    @property
    def full(self) -> bool:
        """Whether there is no room."""
        return self._items.size >= self._items.limit

    # The names of PyDotCompute's documentation.
    max_size = maxsize
    size = qsize
    is_empty = empty
    is_full = full

    def get_stats(self) -> Dict[str, Any]:
        """Returns current_size, max_size, total_enqueued, total_dequeued and total_dropped. Removed messages
        of clear() count as neither of the last two."""
        return {
            "current_size": self.qsize,
            "max_size": self.maxsize,
            "total_enqueued": self._enqueued,
            "total_dequeued": self._dequeued,
            "total_dropped": self._dropped,
        }

"""A bounded priority queue for an asyncio loop, with a policy for a full queue."""
import asyncio
import bisect
import collections
from typing import Any, Deque, Dict, List, Optional

__all__ = ["BoundedQueue", "Closed", "Full"]


class Full(Exception):
    """The queue has no room, and its policy is not to wait."""


class Closed(Exception):
    """The queue was closed, perhaps while the caller waited for it."""


class BoundedQueue:
    """Bounded priority queue for one event loop; not thread-safe. No caller waits for a closed queue.

    Items are taken by priority, equal ones in order of arrival. Dropped items are passed to `on_drop`:
    reason, item.
    """

    __slots__ = ("limit", "when_full", "size", "peak", "on_drop", "_queues", "_priorities", "_getters", "_putters", "_closed", "_held")

    def __init__(self, limit: int, when_full: str, on_drop: Any):
        self.limit = limit
        self.when_full = when_full
        self.size = 0
        self.peak = 0
        self.on_drop = on_drop
        self._queues: Dict[int, Deque[Any]] = {}
        self._priorities: List[int] = []  # of queues with items, ascending
        self._getters: Deque[asyncio.Future] = collections.deque()
        self._putters: Deque[asyncio.Future] = collections.deque()
        self._closed = False
        self._held = False

    @property
    def closed(self) -> bool:
        return self._closed

    def hold(self, held: bool) -> None:
        """Holds or releases the queue; nothing is taken out while it is held."""
        self._held = held
        if not held:
            for _ in range(self.size):
                self._wake(self._getters)

    @property
    def ready(self) -> bool:
        """Whether an item can be taken."""
        return self.size > 0 and not self._held

    def put_now(self, item: Any, priority: int) -> bool:
        """Adds an item without waiting. Returns False where the policy "drop_newest" refused it. Raises
        Full and Closed."""
        if self._closed:
            raise Closed
        if self.size >= self.limit:
            if self.when_full == "drop_newest" or (self.when_full == "drop_oldest" and priority < self._priorities[0]):
                self.on_drop("newest", item)
                return False
            if self.when_full != "drop_oldest":
                raise Full
            self.on_drop("oldest", self._pop(self._priorities[0]))
        queue = self._queues.get(priority)
        if queue is None:
            queue = self._queues[priority] = collections.deque()
        if not queue:
            bisect.insort(self._priorities, priority)
        queue.append(item)
        self.size += 1
        if self.size > self.peak:
            self.peak = self.size
        if self._getters and not self._held:
            self._wake(self._getters)
        return True

    async def put(self, item: Any, priority: int, timeout: Optional[float] = None) -> bool:
        """Adds an item; waits for room where the policy is "block".

        Raises Full and Closed, and asyncio.TimeoutError when there is no room within `timeout` seconds.
        """
        deadline = _deadline(timeout)
        while not self._closed and self.size >= self.limit and self.when_full == "block":
            await self._wait(self._putters, deadline)
        return self.put_now(item, priority)

    def next_item(self) -> Any:
        """Returns the next item without taking it; None for an empty queue."""
        return self._queues[self._priorities[-1]][0] if self.size else None

    def sizes(self) -> Dict[int, int]:
        """Returns the number of items of each priority."""
        return {priority: len(self._queues[priority]) for priority in self._priorities}

    def get_now(self) -> Any:
        """Takes the next item. The queue must not be empty: see `ready`."""
        item = self._pop(self._priorities[-1])
        if self._putters:
            self._wake(self._putters)
        return item

    async def get(self, timeout: Optional[float] = None) -> Any:
        """Waits for the next item and takes it.

        Raises Closed when the queue is closed and empty, and asyncio.TimeoutError when no item arrives
        within `timeout` seconds.
        """
        deadline = _deadline(timeout)
        while not self.ready:
            if self._closed:
                raise Closed
            await self._wait(self._getters, deadline)
        return self.get_now()

    def close(self) -> None:
        """Wakes all waiting callers. Items in the queue remain and can be taken."""
        self._closed = True
        self._held = False
        for waiters in (self._getters, self._putters):
            while waiters:
                self._wake(waiters)

    def clear(self) -> int:
        """Removes all items and returns their number."""
        count, self.size = self.size, 0
        self._queues.clear()
        self._priorities.clear()
        return count

    def _pop(self, priority: int) -> Any:
        queue = self._queues[priority]
        item = queue.popleft()
        if not queue:
            self._priorities.remove(priority)
            if len(self._queues) > 8:
                del self._queues[priority]
        self.size -= 1
        return item

    async def _wait(self, waiters: Deque[asyncio.Future], deadline: Optional[float]) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        waiters.append(waiter)
        timer = None if deadline is None else loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        except BaseException:
            waiter.cancel()
            try:
                waiters.remove(waiter)
            except ValueError:  # it was woken, and will not use its turn
                if self.ready if waiters is self._getters else self.size < self.limit:
                    self._wake(waiters)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _wake(waiters: Deque[asyncio.Future]) -> None:
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


def _deadline(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else asyncio.get_running_loop().time() + timeout


def _expire(waiter: asyncio.Future) -> None:
    if not waiter.done():
        waiter.set_exception(asyncio.TimeoutError())

"""A bounded queue of an asyncio loop, by priority, with a rule for when it is full."""
import asyncio
import bisect
import collections
from typing import Any, Deque, Dict, List, Optional

__all__ = ["BoundedQueue", "Closed", "Full"]


class Full(Exception):
    """There is no room, and the rule is not to wait for it."""


class Closed(Exception):
    """The queue was closed, perhaps while it was waited for."""


class BoundedQueue:
    """For one loop: not thread-safe. Nobody waits for a queue that is closed.

    Items are taken by priority, equal ones in their order. Drops are told to `on_drop`: reason, item.
    """

    __slots__ = ("limit", "when_full", "size", "peak", "on_drop", "_lanes", "_priorities", "_getters", "_putters", "_closed", "_held")

    def __init__(self, limit: int, when_full: str, on_drop: Any):
        self.limit = limit
        self.when_full = when_full
        self.size = 0
        self.peak = 0
        self.on_drop = on_drop
        self._lanes: Dict[int, Deque[Any]] = {}
        self._priorities: List[int] = []  # of lanes with items, ascending
        self._getters: Deque[asyncio.Future] = collections.deque()
        self._putters: Deque[asyncio.Future] = collections.deque()
        self._closed = False
        self._held = False

    @property
    def closed(self) -> bool:
        return self._closed

    def hold(self, held: bool) -> None:
        """While it is held nothing is taken out."""
        self._held = held
        if not held:
            for _ in range(self.size):
                self._wake(self._getters)

    @property
    def ready(self) -> bool:
        """Whether an item can be taken."""
        return self.size > 0 and not self._held

    def put_now(self, item: Any, priority: int) -> bool:
        """False: it was not let in, by the rule of "drop_newest". Raises Full and Closed."""
        if self._closed:
            raise Closed
        if self.size >= self.limit:
            if self.when_full == "drop_newest" or (self.when_full == "drop_oldest" and priority < self._priorities[0]):
                self.on_drop("newest", item)
                return False
            if self.when_full != "drop_oldest":
                raise Full
            self.on_drop("oldest", self._pop(self._priorities[0]))
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = collections.deque()
        if not lane:
            bisect.insort(self._priorities, priority)
        lane.append(item)
        self.size += 1
        if self.size > self.peak:
            self.peak = self.size
        if self._getters and not self._held:
            self._wake(self._getters)
        return True

    async def put(self, item: Any, priority: int, timeout: Optional[float] = None) -> bool:
        """The same, but waits for room where the rule is "block"; asyncio.TimeoutError: there was none by then."""
        deadline = _deadline(timeout)
        while not self._closed and self.size >= self.limit and self.when_full == "block":
            await self._wait(self._putters, deadline)
        return self.put_now(item, priority)

    def get_now(self) -> Any:
        """The next item; there is one: see `ready`."""
        item = self._pop(self._priorities[-1])
        if self._putters:
            self._wake(self._putters)
        return item

    async def get(self, timeout: Optional[float] = None) -> Any:
        """The next item, when there is one. Raises Closed when it is closed and empty, asyncio.TimeoutError when there was
        none by then."""
        deadline = _deadline(timeout)
        while not self.ready:
            if self._closed:
                raise Closed
            await self._wait(self._getters, deadline)
        return self.get_now()

    def close(self) -> None:
        """Wakes whoever waits. What is in it stays and can be taken."""
        self._closed = True
        self._held = False
        for waiters in (self._getters, self._putters):
            while waiters:
                self._wake(waiters)

    def clear(self) -> int:
        """Forgets what is in it; how many that were."""
        count, self.size = self.size, 0
        self._lanes.clear()
        self._priorities.clear()
        return count

    def _pop(self, priority: int) -> Any:
        lane = self._lanes[priority]
        item = lane.popleft()
        if not lane:
            self._priorities.remove(priority)
            if len(self._lanes) > 8:
                del self._lanes[priority]
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

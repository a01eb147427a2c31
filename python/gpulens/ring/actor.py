"""One kernel: its queues, task and state, and the context of a loop."""
import asyncio
import inspect
from typing import Any, List, Optional

from .._core import KernelRecorder, Metered
from .._pickling import refuses
from .. import errors
from .errors import KernelEndedError, KernelStateError, QueueFullError, QueueTimeoutError
from .kernels import KernelSpec
from .messages import DEFAULT_PRIORITY
from .queues import BoundedQueue, Closed, Full
from .states import KernelState

__all__ = ["Actor", "KernelContext"]

_TAKES_MESSAGES = (KernelState.ACTIVE, KernelState.DEACTIVATED)
_ENDED = (KernelState.TERMINATING, KernelState.TERMINATED, KernelState.FAILED)
_BATCH = 64  # messages that a handler is given before others on the loop have a turn
_Item = List[Any]  # a message, when the recorder saw it, who waits for the answer


def priority_of(message: Any) -> int:
    """Returns the priority of a Message, or of any object that has a priority of 0 to 255."""
    priority = getattr(message, "priority", DEFAULT_PRIORITY)
    return priority if type(priority) is int and 0 <= priority <= 255 else DEFAULT_PRIORITY


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class KernelContext:
    """The interface of a loop to its kernel: its one parameter, named ctx."""

    __slots__ = ("_actor",)
    __reduce__ = refuses("a kernel runs in one process")

    def __init__(self, actor: "Actor"):
        self._actor = actor

    @property
    def kernel_id(self) -> str:
        """ID of the kernel."""
        return self._actor.spec.kernel_id

    @property
    def state(self) -> KernelState:
        """State of the kernel."""
        return self._actor.state

    @property
    def should_terminate(self) -> bool:
        """Whether the loop must end."""
        return self._actor.state in _ENDED

    @property
    def is_active(self) -> bool:
        """Whether the kernel processes messages; False while it is deactivated."""
        return self._actor.state is KernelState.ACTIVE

    async def receive(self, timeout: Optional[float] = None) -> Any:
        """Returns the next message, while the kernel is active.

        Raises QueueTimeoutError when no message arrives within `timeout` seconds, and
        asyncio.CancelledError, which ends the loop unless it catches it, when the kernel must end.
        """
        return await self._actor.take(timeout)

    async def send(self, message: Any) -> None:
        """Sends a reply. The first one after a receive counts its message as processed."""
        await self._actor.answer(message)

    async def wait_active(self) -> None:
        """Waits until the kernel is active or must end."""
        await self._actor.activated.wait()

    def request_termination(self) -> None:
        """Ends the kernel as terminate() does, without waiting for it."""
        self._actor.close()

    def record_error(self, error: Any) -> None:
        """Counts an error that the loop handles itself, as the outcome of the message it received last."""
        self._actor.fail(error)


class Actor:
    """Runs one kernel. Must be used from its event loop.

    Methods that may wait are coroutines; the others have completed when they return.
    """

    def __init__(self, spec: KernelSpec, recorder: KernelRecorder):
        self.spec = spec
        self.recorder = recorder if recorder else None
        self.state = KernelState.CREATED
        self.failure: Optional[BaseException] = None
        self.activated = asyncio.Event()
        self.queue = BoundedQueue(spec.queue_size, spec.when_full, self._dropped)
        self.replies = BoundedQueue(spec.replies, spec.when_full, self._reply_dropped)
        self._task: Optional[asyncio.Task] = None
        if self.recorder:
            self.recorder.set_queue_limit(spec.queue_size)
        self._enter(KernelState.LAUNCHED)

    # ---- its life

    def activate(self) -> None:
        self._expect(KernelState.LAUNCHED, "activate")
        self._enter(KernelState.ACTIVE)
        work = self._loop() if self.spec.loop else self._handle()
        run = self._run(work if self.recorder is None else Metered(work, self.recorder))
        self._task = asyncio.get_running_loop().create_task(run)

    def deactivate(self) -> None:
        self._expect(KernelState.ACTIVE, "deactivate")
        self._enter(KernelState.DEACTIVATED)
        self.queue.hold(True)

    def reactivate(self) -> None:
        self._expect(KernelState.DEACTIVATED, "reactivate")
        self._enter(KernelState.ACTIVE)
        self.queue.hold(False)

    def close(self) -> None:
        """Wakes all waiting callers and drops all queued messages."""
        if self.state in (KernelState.TERMINATING, KernelState.TERMINATED):
            return
        self._enter(KernelState.TERMINATING)
        self._drop_queued()
        self._count_dropped("terminated", self.replies.clear())
        self.replies.close()

    async def terminate(self, timeout: Optional[float]) -> None:
        """Waits for the handler, then cancels it.

        Raises errors.TimeoutError when it does not end even then.
        """
        self.close()
        if self._task is not None and self._task is asyncio.current_task():
            raise KernelStateError(self.spec.kernel_id, self.state.name, "terminate", "a kernel cannot wait for its own end; it will end")
        for wait in (timeout, 1.0):
            if self._task is None or self._task.done():
                break
            _, late = await asyncio.wait({self._task}, timeout=wait)
            for task in late:
                task.cancel()
        if self._task is not None and not self._task.done():
            raise errors.TimeoutError(f"kernel '{self.spec.kernel_id}': the handler is still running")
        self._enter(KernelState.TERMINATED)

    def _enter(self, state: KernelState) -> None:
        self.state = state
        if state is KernelState.ACTIVE or state in _ENDED:
            self.activated.set()
        else:
            self.activated.clear()
        if self.recorder:
            self.recorder.set_state(state)

    def _expect(self, state: KernelState, operation: str) -> None:
        if self.state is not state:
            raise KernelStateError(self.spec.kernel_id, self.state.name, operation)

    # ---- from outside

    def refused(self, operation: str) -> KernelStateError:
        """Returns the error for an operation that this state does not allow."""
        kind = KernelEndedError if self.state in _ENDED else KernelStateError
        why = text_of(self.failure) if self.failure else ""
        return kind(self.spec.kernel_id, self.state.name, operation, why)

    async def send(self, message: Any, timeout: Optional[float] = None, asker: Optional[asyncio.Future] = None) -> None:
        if self.state not in _TAKES_MESSAGES:
            raise self.refused("send message")
        queue = self.queue
        item = [message, 0.0, asker]
        try:
            if queue.size < queue.limit or queue.when_full != "block":
                taken = queue.put_now(item, priority_of(message))
            else:
                taken = await queue.put(item, priority_of(message), timeout)
        except Full:
            self._count_dropped("rejected")
            raise QueueFullError(self.spec.kernel_id, queue.limit) from None
        except asyncio.TimeoutError:
            self._count_dropped("timeout")
            raise QueueTimeoutError(self.spec.kernel_id, timeout or 0.0, "send") from None
        except Closed:
            raise self.refused("send message") from None
        if taken and self.recorder is not None:
            item[1] = self.recorder.receive(queue.size)

    async def receive(self, timeout: Optional[float] = None) -> Any:
        replies = self.replies
        if replies.ready:
            return replies.get_now()
        if self.state is KernelState.LAUNCHED:
            raise self.refused("receive message")
        try:
            return await replies.get(timeout)
        except asyncio.TimeoutError:
            raise QueueTimeoutError(self.spec.kernel_id, timeout or 0.0, "receive") from None
        except Closed:
            raise self.refused("receive message") from None

    # ---- on its task

    async def _run(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.fail(error)
            if self.state in _TAKES_MESSAGES:
                self.failure = error
                self._enter(KernelState.FAILED)
        except asyncio.CancelledError as error:
            if self.state in _TAKES_MESSAGES:  # not cancelled by the runtime
                self.fail(error)
                self.failure = error
                self._enter(KernelState.FAILED)
        finally:
            self._settle()
            if self.state is not KernelState.FAILED:
                self._enter(KernelState.TERMINATED)
            self._drop_queued()
            self.replies.close()

    async def _loop(self) -> None:
        result = self.spec.function(KernelContext(self))
        if inspect.isawaitable(result):
            await result

    async def _handle(self) -> None:
        queue, function, turns = self.queue, self.spec.function, 0
        while True:
            try:
                item = queue.get_now() if queue.ready else await queue.get()
            except Closed:
                return
            message, asker = self._begin(item), item[2]
            try:
                result = function(message)
                if inspect.isawaitable(result):
                    result = await result
            except Exception as error:
                self.fail(error)
                if asker and not asker.done():
                    asker.set_exception(error)
            except BaseException as error:
                if asker and not asker.done():
                    asker.set_exception(self.refused("ask"))
                if not isinstance(error, asyncio.CancelledError) or self.state in _ENDED:
                    raise
                self.fail(error)
            else:
                await self._reply(result, asker)
            turns += 1
            if turns % _BATCH == 0:
                await asyncio.sleep(0)

    async def _reply(self, result: Any, asker: Optional[asyncio.Future]) -> None:
        if asker is not None:
            late = asker.done()
            if not late:
                asker.set_result(result)
            self._settle(sent=not late)
            self._count_dropped("reply", int(late))
        elif result is None:
            self._settle()
        else:
            try:
                await self.answer(result)
            except QueueFullError:
                pass  # counted

    def _begin(self, item: _Item) -> Any:
        if self.recorder is not None:
            self.recorder.begin(self.queue.size, item[1])
        return item[0]

    def _settle(self, sent: bool = False) -> None:
        """Counts the current message, if there is one, as processed."""
        if self.recorder is not None:
            self.recorder.done(sent)

    def fail(self, error: Any) -> None:
        if self.recorder is not None:
            self.recorder.error(text_of(error) if isinstance(error, BaseException) else str(error))

    async def take(self, timeout: Optional[float]) -> Any:
        self._settle()
        queue = self.queue
        try:
            return self._begin(queue.get_now() if queue.ready else await queue.get(timeout))
        except asyncio.TimeoutError:
            raise QueueTimeoutError(self.spec.kernel_id, timeout or 0.0, "receive") from None
        except Closed:
            await asyncio.sleep(0)  # a loop that will not end leaves others their turn
            raise asyncio.CancelledError(f"kernel '{self.spec.kernel_id}' must end") from None

    async def answer(self, reply: Any) -> None:
        replies = self.replies
        try:
            if replies.size < replies.limit or replies.when_full != "block":
                sent = replies.put_now(reply, priority_of(reply))
            else:
                sent = await replies.put(reply, priority_of(reply))
        except Full:
            self._settle()
            self._count_dropped("reply")
            raise QueueFullError(self.spec.kernel_id, replies.limit) from None
        except Closed:
            self._settle()
            self._count_dropped("terminated")
        else:
            self._settle(sent=sent)

    # ---- drops

    def _count_dropped(self, reason: str, count: int = 1) -> None:
        if count and self.recorder:
            self.recorder.drop(reason, count)

    def _dropped(self, reason: str, item: _Item) -> None:
        self._count_dropped(reason)
        if item[2] is not None and not item[2].done():
            item[2].set_exception(QueueFullError(self.spec.kernel_id, self.queue.limit))

    def _reply_dropped(self, reason: str, reply: Any) -> None:
        self._count_dropped("reply")

    def _drop_queued(self) -> None:
        self.queue.close()
        while self.queue.size:
            self._count_dropped("terminated")
            asker = self.queue.get_now()[2]
            if asker is not None and not asker.done():
                asker.set_exception(self.refused("ask"))
        if self.recorder:
            self.recorder.set_queue_depth(0)

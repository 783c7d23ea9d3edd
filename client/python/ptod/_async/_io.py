"""What differs between ptod and ptod.aio: this is asyncio. `_sync/_io.py` has the same names."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import (
    Any,
    Awaitable,
    Callable,
    Generator,
    Generic,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    TypeVar,
)

import grpc
import grpc.aio

from ptod import _api, errors

T = TypeVar("T")

CANCELLED: Tuple[Type[BaseException], ...] = (asyncio.CancelledError,)
sleep = asyncio.sleep
Lock = asyncio.Lock


def make_channel(
    address: str, credentials: Optional[grpc.ChannelCredentials], options: Sequence[Any]
) -> Any:
    """A connection to the daemon."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)


async def close_channel(channel: Any) -> None:
    """Ends a connection and its calls."""
    await channel.close()


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls a function that may block. Nobody waits for it if the task is cancelled."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


async def finish_in_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls a function that copies: the task that is cancelled still waits for its end, because its
    caller may use the memory then."""
    work = asyncio.get_running_loop().run_in_executor(None, function, *args)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def finish(work: Awaitable[T]) -> T:
    """Awaits something that goes on even if the task is cancelled once more."""
    return await asyncio.shield(asyncio.ensure_future(work))


async def result_of(result: Any) -> Any:
    """What a function has returned that may be a coroutine function."""
    return await result if inspect.isawaitable(result) else result


# The event loop does not keep its tasks alive.
_tasks: "Set[asyncio.Task[Any]]" = set()


def spawn(function: Callable[..., Any], *args: Any) -> Any:
    """Runs a coroutine in the background."""
    task = asyncio.get_running_loop().create_task(function(*args))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


def at_exit(client: Any) -> None:
    """Nothing: when the interpreter exits, the event loop is gone."""


class Event:
    """An event with a timeout."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wakes who waits."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it was set in time."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True


class Opening(Generic[T]):
    """Something that opens when it is awaited, or entered with `async with`."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._function, self._args = function, args
        self._opened: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._function(*self._args).__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._function(*self._args)
        return await self._opened.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._opened.__aexit__(*error)


class Caller:
    """A method with one answer."""

    __slots__ = ("call", "name", "guard", "single", "waiting")

    #: For a stream of requests: the same with one request.
    single: "Caller"
    #: If requests can say `wait`: the method where others do not queue behind it.
    waiting: Any

    def __init__(self, call: Any, name: str, guard: _api.Guard) -> None:
        self.call, self.name, self.guard = call, name, guard
        self.waiting = None

    async def __call__(
        self, request: Any, timeout: Optional[float] = None, wait_for_ready: bool = False
    ) -> Any:
        guard, call = self.guard, self.call
        guard.check()
        if self.waiting is not None and request.HasField("wait"):
            call = self.waiting
        until = time.monotonic() + (guard.timeout if timeout is None else timeout)
        broken = False
        while True:
            try:
                return await call(
                    request,
                    timeout=max(until - time.monotonic(), 0.001),
                    metadata=guard.metadata,
                    wait_for_ready=wait_for_ready,
                )
            except grpc.RpcError as error:
                guard.check()
                again = not broken and errors.is_broken(error)
                if not again or not _api.can_repeat(self.name, request):
                    raise errors.from_rpc(error, self.name, guard.address) from None
                broken = True
            except asyncio.CancelledError:
                if not _is_task_cancelled():
                    guard.check()  # closing the channel has cancelled the call
                raise
            except (ValueError, grpc.aio.UsageError):
                guard.check()
                raise

    def open(self) -> "Writer":
        """Begins to send a stream of requests. No deadline."""
        self.guard.check()
        return Writer(self)


class Streamer:
    """A method with a stream of answers."""

    __slots__ = ("call", "name", "guard")

    def __init__(self, call: Any, name: str, guard: _api.Guard) -> None:
        self.call, self.name, self.guard = call, name, guard

    def __call__(self, request: Any, timeout: Optional[float] = None) -> "Reader":
        self.guard.check()
        return Reader(self, self.call(request, timeout=timeout, metadata=self.guard.metadata))

    def open(self) -> "Duplex":
        """Begins a stream in both directions. No deadline."""
        self.guard.check()
        return Duplex(self, self.call(metadata=self.guard.metadata))


class Reader:
    """A stream of answers. One task that waits may be cancelled without the others noticing: gRPC
    would end the whole stream, so it is not told."""

    def __init__(self, method: Streamer, call: Any) -> None:
        self._method, self._call = method, call
        self._one_reads = asyncio.Lock()
        self._pending: "Optional[asyncio.Future[Any]]" = None
        self._cancelled = False

    async def read(self) -> Any:
        """The next message; None at the end, also if it was closed meanwhile."""
        async with self._one_reads:
            if self._cancelled:
                return None
            if self._pending is None:
                self._pending = _quiet(self._call.read())
            pending = self._pending
            try:
                message = await asyncio.shield(pending)
            except asyncio.CancelledError:
                if not pending.cancelled():
                    raise  # the message is for the next one who reads
                self._pending = None
                if self._cancelled or self._method.guard.is_closed:
                    return None
                raise
            except grpc.RpcError as error:
                self._pending = None
                raise self._error(error) from None
            self._pending = None
            return None if message is grpc.aio.EOF else message

    def _error(self, error: grpc.RpcError) -> errors.Error:
        return errors.from_rpc(error, self._method.name, self._method.guard.address)

    def cancel(self) -> None:
        """Ends the stream."""
        self._cancelled = True
        self._call.cancel()

    def __del__(self) -> None:
        # A read that nobody waits for keeps the call.
        if self._pending is not None and not self._pending.get_loop().is_closed():
            self._call.cancel()


class Duplex(Reader):
    """A stream in both directions."""

    def __init__(self, method: Streamer, call: Any) -> None:
        super().__init__(method, call)
        self._one_writes = asyncio.Lock()

    async def write(self, message: Any) -> None:
        """Sends a message. It goes on if the task is cancelled."""
        await asyncio.shield(_quiet(self._write(message)))

    async def _write(self, message: Any) -> None:
        async with self._one_writes:
            try:
                await self._call.write(message)
            except grpc.RpcError as error:
                raise self._error(error) from None
            except asyncio.InvalidStateError:
                raise errors.stream_ended() from None

    async def done_writing(self) -> None:
        """Says that no more messages follow."""
        await asyncio.shield(_quiet(self._done_writing()))

    async def _done_writing(self) -> None:
        async with self._one_writes:
            await self._call.done_writing()


class Writer:
    """A stream of requests with one answer."""

    def __init__(self, method: Caller) -> None:
        self._method = method
        self._call = method.call(metadata=method.guard.metadata)
        self._one_writes = asyncio.Lock()
        self._answer: "Optional[asyncio.Future[Any]]" = None

    async def write(self, message: Any) -> bool:
        """Sends a message as soon as the daemon reads it, even if the task is cancelled. False if
        there is an answer already."""
        return await asyncio.shield(_quiet(self._write(message)))

    async def _write(self, message: Any) -> bool:
        async with self._one_writes:
            try:
                await self._call.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError):
                return False
            return True

    async def answer(self, seconds: float) -> Any:
        """Ends the stream and returns the answer; None if there is none in time."""
        if self._answer is None:
            self._answer = _quiet(self._finish())
        if not (await asyncio.wait([self._answer], timeout=seconds))[0]:
            return None
        if self._answer.cancelled():
            raise errors.Error(f"{self._method.name}: cancelled", code="CANCELLED")
        return self._answer.result()

    async def _finish(self) -> Any:
        try:
            async with self._one_writes:
                if not self._call.done():
                    await self._call.done_writing()
            return await self._call
        except grpc.RpcError as error:
            raise errors.from_rpc(error, self._method.name, self._method.guard.address) from None

    def cancel(self) -> None:
        """Breaks the stream."""
        self._call.cancel()


def _is_task_cancelled() -> bool:
    """Whether somebody has cancelled this task; Python 3.9 and 3.10 cannot tell."""
    task = asyncio.current_task()
    return task is not None and hasattr(task, "cancelling") and task.cancelling() > 0


def _quiet(work: Awaitable[T]) -> "asyncio.Future[T]":
    """Begins something whose error matters only to who still waits for it."""
    future = asyncio.ensure_future(work)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


WRAPPERS = {
    "unary_unary": Caller,
    "stream_unary": Caller,
    "unary_stream": Streamer,
    "stream_stream": Streamer,
}

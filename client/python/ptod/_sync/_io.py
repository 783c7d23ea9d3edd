"""What differs between ptod and ptod.aio: this is threads. `_async/_io.py` has the same names."""

from __future__ import annotations

import atexit
import collections
import queue
import sys
import threading
import time
import weakref
from typing import Any, Callable, Deque, Iterator, Optional, Sequence, Tuple, Type, TypeVar

import grpc

from ptod import _api, errors

T = TypeVar("T")

CANCELLED: Tuple[Type[BaseException], ...] = ()
sleep = time.sleep
Lock = threading.Lock
_END = object()


def make_channel(
    address: str, credentials: Optional[grpc.ChannelCredentials], options: Sequence[Any]
) -> Any:
    """A connection to the daemon."""
    if credentials is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, credentials, options)


def close_channel(channel: Any) -> None:
    """Ends a connection and its calls."""
    channel.close()


def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls a function that may block."""
    return function(*args)


finish_in_thread = in_thread


def finish(result: T) -> T:
    """Nothing: only tasks of asyncio can be cancelled meanwhile."""
    return result


def result_of(result: T) -> T:
    """What a function has returned."""
    return result


def spawn(function: Callable[..., Any], *args: Any) -> Any:
    """Runs a function in the background."""
    thread = threading.Thread(target=function, args=args, daemon=True, name="ptod-background")
    thread.start()
    return thread


_at_exit: "weakref.WeakSet[Any]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for each in list(_at_exit):
        try:
            each.close()
        except Exception:
            # The others must not stay open.
            sys.excepthook(*sys.exc_info())


def at_exit(client: Any) -> None:
    """Closes a client when the interpreter exits, unless it is gone by then."""
    _at_exit.add(client)


class Event:
    """An event with a timeout."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Wakes who waits."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Whether it was set in time."""
        return self._event.wait(seconds)


def Opening(function: Callable[..., T], *args: Any) -> T:  # a class in _async/_io.py
    """Opens something."""
    return function(*args)


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

    def __call__(
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
                return call(
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
            except ValueError:
                guard.check()  # the channel was closed meanwhile
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
        return Duplex(self)


class Reader:
    """A stream of answers."""

    def __init__(self, method: Streamer, call: Any) -> None:
        self._method, self._call = method, call
        self._cancelled = False

    def read(self) -> Any:
        """The next message; None at the end, also if it was closed meanwhile."""
        try:
            return next(self._call, None)
        except grpc.RpcError as error:
            if self._cancelled or self._method.guard.is_closed:
                return None
            raise errors.from_rpc(error, self._method.name, self._method.guard.address) from None

    def cancel(self) -> None:
        """Ends the stream."""
        self._cancelled = True
        self._call.cancel()


class Duplex(Reader):
    """A stream in both directions."""

    def __init__(self, method: Streamer) -> None:
        self._requests: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        requests = iter(self._requests.get, _END)
        super().__init__(method, method.call(requests, metadata=method.guard.metadata))
        # gRPC's thread takes from the queue until there is nothing more to come.
        self._call.add_callback(lambda: self._requests.put(_END))

    def write(self, message: Any) -> None:
        """Sends a message."""
        if not self._call.is_active():
            raise errors.stream_ended()
        self._requests.put(message)

    def done_writing(self) -> None:
        """Says that no more messages follow."""
        self._requests.put(_END)


class Writer:
    """A stream of requests with one answer."""

    _MOST = 2  # messages that gRPC has not taken yet

    def __init__(self, method: Caller) -> None:
        self._method = method
        self._messages: Deque[Any] = collections.deque()
        self._changed = threading.Condition()
        self._over = False
        self._call = method.call.future(self._requests(), metadata=method.guard.metadata)
        self._call.add_done_callback(lambda _: self._end())

    def _requests(self) -> Iterator[Any]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._messages or self._over)
                if not self._messages:
                    return
                message = self._messages.popleft()
                self._changed.notify_all()
            yield message

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def write(self, message: Any) -> bool:
        """Sends a message as soon as the daemon reads it. False if there is an answer already."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._messages) < self._MOST or self._over)
            if self._over:
                return False
            self._messages.append(message)
            self._changed.notify_all()
        return True

    def answer(self, seconds: float) -> Any:
        """Ends the stream and returns the answer; None if there is none in time."""
        self._end()
        try:
            return self._call.result(seconds)
        except grpc.FutureTimeoutError:
            return None
        except grpc.RpcError as error:
            raise errors.from_rpc(error, self._method.name, self._method.guard.address) from None
        except grpc.FutureCancelledError:
            raise errors.Error(f"{self._method.name}: cancelled", code="CANCELLED") from None

    def cancel(self) -> None:
        """Breaks the stream."""
        self._call.cancel()


WRAPPERS = {
    "unary_unary": Caller,
    "stream_unary": Caller,
    "unary_stream": Streamer,
    "stream_stream": Streamer,
}

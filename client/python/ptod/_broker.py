"""The memory broker's messages, and a connection to it: daemon/broker/README.md."""

from __future__ import annotations

import collections
import os
import socket
import struct
import threading
import time
from typing import Deque, NamedTuple, Optional, Tuple

_MAGIC, _VERSION = 0x6D6F7470, 1
_ATTACH, _MAP, _CHECK, _RELEASE = 1, 2, 3, 4
_HEAD = struct.Struct("=IHHQQ")
_REQUEST = struct.Struct("=IHHQQ32sB63s")
_REPLY = struct.Struct("=IHHQQQII")

OK, DENIED, SESSION_GONE, BUFFER_GONE, BUFFER_IN_USE, REGION_UNKNOWN, LIMIT = range(7)

_ANSWER_SECONDS = 2.0
_MOVED_PER_SECOND = 256 << 20
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0


class Region(NamedTuple):
    """Mapped memory: its number at the broker, and the connection that it belongs to."""

    number: int
    connection: int


def encode(op: int, number: int, region: int = 0, key: bytes = b"", name: str = "") -> bytes:
    """A question to the broker."""
    text = name.encode("ascii")
    return _REQUEST.pack(_MAGIC, _VERSION, op, number, region, key, len(text), text)


def decode(message: bytes) -> Optional[Tuple[int, int, int, int, int]]:
    """op, number, region, bytes and outcome of an answer; None if it is none."""
    if len(message) != _REPLY.size:
        return None
    magic, version, op, number, region, size, outcome, zero = _REPLY.unpack(message)
    mapped = op == _MAP and outcome == OK
    if (magic, version, zero) != (_MAGIC, _VERSION, 0) or outcome > LIMIT:
        return None
    return (op, number, region, size, outcome) if mapped == bool(region) == bool(size) else None


class BrokerLink:
    """A connection to the broker for one session. Connects when it is first used. Thread-safe."""

    def __init__(self, path: str, session_id: str, key: bytes) -> None:
        self._path, self._session_id, self._key = path, session_id, key
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._socket: Optional[socket.socket] = None
        self._connection = 0
        self._number = 0
        self._closed = False
        self._retry_at, self._pause = 0.0, 0.0
        # Regions whose memory is unmapped. Whoever drops the last view may hold any lock, so the
        # broker is told by the next question.
        self._released: Deque[Region] = collections.deque()

    def map(self, buffer_id: str, size: int) -> Tuple[int, int, Optional[Region]]:
        """outcome, descriptor and region of a buffer's memory. The caller closes the descriptor."""
        answer = self._ask(_MAP, name=buffer_id, wait=_ANSWER_SECONDS + size / _MOVED_PER_SECOND)
        if answer is None:
            return LIMIT, -1, None
        outcome, number, mapped, descriptor, connection = answer
        region = Region(number, connection)
        if outcome == OK and mapped != size:
            os.close(descriptor)
            self.release(region)
            return DENIED, -1, None
        return outcome, descriptor, region if outcome == OK else None

    def check(self, region: Region) -> int:
        """Whether the memory may be read and written now: an outcome."""
        if region.connection != self._connection:
            return REGION_UNKNOWN
        answer = self._ask(_CHECK, region=region)
        return REGION_UNKNOWN if answer is None else answer[0]

    def release(self, region: Region) -> None:
        """Tells the broker, soon, that the memory is not mapped any more. Never blocks."""
        self._released.append(region)

    def _is_forked(self) -> bool:
        # The parent has the socket, too, and a thread of it may have held the lock.
        return os.getpid() != self._process

    def close(self) -> None:
        """Disconnects. Memory stays mapped until it is dropped."""
        if self._is_forked():
            return
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        self._connection += 1
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(
        self,
        op: int,
        region: Optional[Region] = None,
        name: str = "",
        wait: float = _ANSWER_SECONDS,
    ) -> Optional[Tuple[int, int, int, int, int]]:
        """outcome, region, bytes, descriptor and connection; None if the broker cannot be asked."""
        if self._is_forked():
            return None
        with self._lock:
            if self._closed or time.monotonic() < self._retry_at:
                return None
            try:
                if self._socket is None and not self._connect():
                    return None
                while self._released:
                    old = self._released.popleft()
                    if old.connection == self._connection:
                        self._exchange(_RELEASE, old.number, wait=_ANSWER_SECONDS)
                if region is not None and region.connection != self._connection:
                    return None
                outcome, number, size, descriptor = self._exchange(
                    op, region.number if region else 0, name=name, wait=wait
                )
                return outcome, number, size, descriptor, self._connection
            except OSError:
                # Without its answer, the next one would be taken for that to another question.
                self._disconnect()
                self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LAST_PAUSE)
                self._retry_at = time.monotonic() + self._pause
                return None

    def _connect(self) -> bool:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_ANSWER_SECONDS)
        self._socket.connect(self._path)
        outcome = self._exchange(_ATTACH, key=self._key, name=self._session_id)[0]
        if outcome == LIMIT:
            raise OSError("too many connections")
        self._pause = 0.0
        if outcome != OK:  # a wrong key or user stays wrong
            self._closed = True
            self._disconnect()
        return not self._closed

    def _exchange(
        self,
        op: int,
        region: int = 0,
        key: bytes = b"",
        name: str = "",
        wait: float = _ANSWER_SECONDS,
    ) -> Tuple[int, int, int, int]:
        """outcome, region, bytes and descriptor (-1 if there is none)."""
        assert self._socket is not None
        self._number += 1
        self._socket.settimeout(wait)
        self._socket.send(encode(op, self._number, region, key, name))
        message, descriptors, flags, _ = socket.recv_fds(
            self._socket, _REPLY.size + 1, 1, socket.MSG_CMSG_CLOEXEC
        )
        answer = decode(message)
        lost = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        mapped = answer is not None and answer[0] == _MAP and answer[4] == OK
        if (
            lost
            or answer is None
            or answer[:2] != (op, self._number)
            or mapped != bool(descriptors)
        ):
            for descriptor in descriptors:
                os.close(descriptor)
            raise OSError("the memory broker answers something else")
        return answer[4], answer[2], answer[3], descriptors[0] if descriptors else -1

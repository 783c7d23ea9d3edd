"""Keeps the sessions of a client alive."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, List

from ptod import errors
from ptod._async import _io

if TYPE_CHECKING:
    from ptod._async.session import Session

_RETRY_SECONDS = 0.1


class Renewer:
    """Renews each session at a third of its time to live, in the background. A session that nobody
    refers to any more is not renewed, and so ends."""

    def __init__(self) -> None:
        self._due: "weakref.WeakKeyDictionary[Session, float]" = weakref.WeakKeyDictionary()
        # Held for moments only, so it is the same with asyncio.
        self._lock = threading.Lock()
        self._changed = _io.Event()
        self._running = False
        self._closed = False

    def add(self, session: Session) -> None:
        """Renews this session from now on."""
        with self._lock:
            self._due[session] = time.monotonic() + session.ttl / 3
            start, self._running = not self._running, True
            self._changed.set()
        if start:
            try:
                _io.spawn(_loop, weakref.ref(self))
            except BaseException:
                self._stopped()
                raise

    def remove(self, session: Session) -> None:
        """Does not renew it any more."""
        with self._lock:
            self._due.pop(session, None)

    def sessions(self) -> List[Session]:
        """Those that it renews."""
        with self._lock:
            return list(self._due.keys())

    def close(self) -> None:
        """Ends the work in the background."""
        with self._lock:
            self._closed = True
            self._changed.set()

    def _stopped(self) -> None:
        """The next session starts the work again."""
        with self._lock:
            self._running = False

    async def _turn(self) -> bool:
        """Renews what is due. False if nothing is left to do."""
        now = time.monotonic()
        with self._lock:
            if self._closed or not self._due:
                self._running = False
                return False
            self._changed = _io.Event()
            due = [session for session, at in self._due.items() if at <= now]
        for session in due:
            await self._renew(session)
        return True

    async def _renew(self, session: Session) -> None:
        pause = session.ttl / 3
        try:
            await session._renew()
        except errors.SessionLost as error:
            self.remove(session)
            try:
                session._lose(error)
            except RuntimeError:
                pass  # there is no thread left to tell it
        except Exception:
            # The daemon may be busy; the lease has two thirds of its time left. gRPC has errors of
            # its own for connections that were closed meanwhile.
            pause = min(_RETRY_SECONDS, session.ttl / 10)
        with self._lock:
            if session in self._due:
                self._due[session] = time.monotonic() + pause

    def _sleep_time(self) -> float:
        with self._lock:
            due = min(self._due.values(), default=0.0)
        return max(0.0, due - time.monotonic())


async def _loop(renewer: "weakref.ref[Renewer]") -> None:
    try:
        while True:
            this = renewer()
            if this is None or not await this._turn():
                return
            changed, seconds = this._changed, this._sleep_time()
            del this
            await changed.wait(seconds)
    except BaseException:
        this = renewer()
        if this is not None:
            this._stopped()
        raise

"""Events of a session, in order."""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING, Any, Deque, List, Optional

from ptod import errors
from ptod._async import _io
from ptod._names import Seconds, duration
from ptod.v1 import event_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_RECONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5
_ENDED = (4, 5, 6)


class EventStream:
    """An iterator over events (`ptod.v1` Event). Each comes once; what the daemon does not hold any
    more comes as an event `dropped`. Resumes by itself when the connection breaks.

    `sequence` is the position to resume from: pass it as `after`. The stream of a session ends with
    the session, that of a run with the run.
    """

    def __init__(
        self, session: Session, after: int, runs: List[str], until: str, linger: Optional[Seconds]
    ) -> None:
        self._session = session
        #: Everything up to this number was returned, or was not asked for.
        self.sequence = after
        self._runs, self._until, self._linger = runs, until, linger
        self._pending: Deque[event_pb2.Event] = collections.deque()
        self._through = after
        self._reader: Any = None
        self._ended = False

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> event_pb2.Event:
        while not self._pending:
            self.sequence = self._through
            if self._ended or not await self._read():
                self.close()
                raise StopAsyncIteration
        event = self._pending.popleft()
        self.sequence = max(self.sequence, _last_of(event))
        if event.run.name and event.run.name == self._until and event.run.state in _ENDED:
            self._ended = True
            self._pending.clear()
        return event

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream."""
        self._ended = True
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    async def _read(self) -> bool:
        """Reads a batch. False at the end."""
        pause, until = _FIRST_PAUSE, time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                if self._reader is None:
                    self._reader = self._session._api.EventService.WatchEvents(self._request())
                batch = await self._reader.read()
            except errors.Error as error:
                self._reader = None
                if error.code != "UNAVAILABLE" or time.monotonic() >= until:
                    raise
                await _io.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
                continue
            if batch is None:
                return False
            self._pending.extend(batch.events)
            self._through = max(self._through, batch.through_sequence)
            return True

    def _request(self) -> event_pb2.WatchEventsRequest:
        return event_pb2.WatchEventsRequest(
            parent=self._session.name,
            after_sequence=self._through,
            boot_id=self._session.info.boot_id,
            runs=self._runs,
            max_linger=duration(self._linger),
        )


def _last_of(event: event_pb2.Event) -> int:
    if event.HasField("tasks"):
        return event.sequence + max(len(event.tasks.task), 1) - 1
    return event.dropped.last_sequence if event.HasField("dropped") else event.sequence

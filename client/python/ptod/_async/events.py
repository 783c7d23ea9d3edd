"""Events of a session, in order."""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING, Any, Deque, List, Optional

from ptod import errors
from ptod._async import _io
from ptod._names import Seconds, duration
from ptod.v1 import event_pb2, run_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_RECONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5
# How often the daemon says at least how far the stream of a run is.
_PROGRESS_SECONDS = 0.5
_ENDED = (4, 5, 6)


class EventStream:
    """An iterator over events (`ptod.v1` Event). Each comes once; what the daemon does not hold any
    more comes as an event `dropped`. Resumes by itself when the connection breaks.

    `sequence` is the position to resume from: pass it as `after`. The stream of a session ends with
    the session, that of a run with the run, even if the daemon does not hold its end any more.
    """

    def __init__(
        self,
        session: Session,
        after: int,
        runs: List[str],
        linger: Optional[Seconds],
        until: Optional[run_pb2.Run] = None,
    ) -> None:
        self._session = session
        #: Everything up to this number was returned, or was not asked for.
        self.sequence = after
        self._runs, self._linger = runs, linger
        self._until = "" if until is None else until.name
        # The number of the last event of the run, if it is known to have ended.
        self._last = _last_of_run(until)
        self._pending: Deque[event_pb2.Event] = collections.deque()
        self._through = after
        self._reader: Any = None
        # Whether its end may be something that is not sent.
        self._must_ask = after > 0 and self._last is None
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
        if self._last is not None and self._through >= self._last:
            return False
        pause = _FIRST_PAUSE
        until: Optional[float] = None
        while not self._ended:
            reader = self._reader
            try:
                if reader is None:
                    reader = self._session._api.EventService.WatchEvents(self._request())
                    self._reader = reader
                batch = await reader.read()
            except errors.Error as error:
                self._reader = None
                # The last answer may be long ago, so the time runs from here.
                until = time.monotonic() + _RECONNECT_SECONDS if until is None else until
                if error.code != "UNAVAILABLE" or time.monotonic() >= until:
                    raise
                await _io.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
                continue
            if batch is None:
                return False
            self._pending.extend(batch.events)
            self._through = max(self._through, batch.through_sequence)
            await self._look_for_end(batch)
            return True
        return False

    async def _look_for_end(self, batch: event_pb2.EventBatch) -> None:
        """Asks for the run if the event of its end may be one of those that were dropped."""
        if not self._until or self._last is not None:
            return
        self._must_ask = self._must_ask or any(event.HasField("dropped") for event in batch.events)
        if not self._must_ask:
            return
        request = run_pb2.GetRunRequest(name=self._until)
        try:
            self._last = _last_of_run(await self._session._api.RunService.GetRun(request))
        except errors.Error as error:
            if error.reason != "RUN_EXPIRED":
                return  # the next batch, which comes even if nothing happens, is another chance
            self._last = 0
        self._must_ask = False

    def _request(self) -> event_pb2.WatchEventsRequest:
        return event_pb2.WatchEventsRequest(
            parent=self._session.name,
            after_sequence=self._through,
            boot_id=self._session.info.boot_id,
            runs=self._runs,
            max_linger=duration(self._linger),
            progress_interval=duration(_PROGRESS_SECONDS if self._until else None),
        )


def _last_of_run(run: Optional[run_pb2.Run]) -> Optional[int]:
    return run.as_of_sequence if run is not None and run.state in _ENDED else None


def _last_of(event: event_pb2.Event) -> int:
    if event.HasField("tasks"):
        return event.sequence + max(len(event.tasks.task), 1) - 1
    return event.dropped.last_sequence if event.HasField("dropped") else event.sequence

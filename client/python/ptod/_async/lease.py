"""Leases of chips."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, List

from ptod import errors
from ptod._names import duration
from ptod.v1 import session_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_PART_SECONDS = 30.0


async def lease_chips(session: Session, count: int, timeout: float) -> List[int]:
    """Waits for its turn in parts, and returns the chips' indices."""
    until = time.monotonic() + timeout
    while True:
        left = max(0.0, min(_PART_SECONDS, until - time.monotonic()))
        request = session_pb2.LeaseChipsRequest(name=session.name, count=count, wait=duration(left))
        lease = await session._api.SessionService.LeaseChips(
            request, timeout=left + session.client._guard.timeout
        )
        if lease.state == session_pb2.ChipLease.GRANTED:
            return [int(chip.rpartition("/")[2]) for chip in lease.chips]
        if time.monotonic() >= until:
            raise errors.timeout(
                f"{session.name} has not got {count} chips within {timeout:g} s: {lease.position} "
                "requests are before it; it keeps its place"
            )

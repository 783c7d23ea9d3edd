"""Ids that clients choose, and durations on the wire."""

from __future__ import annotations

import datetime
import os
from typing import Optional, Union

from google.protobuf import duration_pb2

Seconds = Union[int, float, datetime.timedelta]

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def random_id(prefix: str) -> str:
    """An id that nobody else chooses: 80 random bits."""
    bits = int.from_bytes(os.urandom(10), "little")
    return prefix + "-" + "".join(_ALPHABET[(bits >> 5 * i) & 31] for i in range(16))


def seconds(value: Optional[Seconds]) -> float:
    """A time in seconds. None is zero."""
    if value is None:
        return 0.0
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


def duration(value: Optional[Seconds]) -> Optional[duration_pb2.Duration]:
    """A time for the wire. None is unset."""
    if value is None:
        return None
    nanos = round(seconds(value) * 1e9)
    sign = -1 if nanos < 0 else 1
    whole, rest = divmod(abs(nanos), 1_000_000_000)
    return duration_pb2.Duration(seconds=sign * whole, nanos=sign * rest)

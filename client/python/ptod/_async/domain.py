"""Domains: chips that communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence

import numpy as np

from ptod import errors
from ptod._async.buffers import Buffer, Tensor
from ptod._names import random_id
from ptod.dtypes import DType
from ptod.v1 import domain_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_OPERATIONS = {"set": 1, "add": 2}


class Domain:
    """An ordered list of chips, each with a window of named buffers and signals. The position of a
    chip is its rank. Signals are zero at the beginning of each run that uses them.

    >>> d = s.domain([0, 1], {"x": (4, np.float32)}, signals=1)
    >>> for rank in range(2):
    ...     d.window(rank, "x").write(rank + 1)
    >>> g = ptod.Graph()
    >>> _ = g.all_reduce([[x, x] for x in d.windows("x")])
    >>> _ = s.run(g)
    >>> d.window(1, "x").numpy()
    array([3., 3., 3., 3.], dtype=float32)
    """

    def __init__(self, session: Session, info: domain_pb2.Domain) -> None:
        #: The session that it belongs to.
        self.session = session
        #: The domain as it was created.
        self.info = info
        self._path = info.name[len(session.name) + 1 :]
        self._chips = [int(chip.rpartition("/")[2]) for chip in info.chips]
        self._buffers: Dict[str, Buffer] = {}
        self._parts = {buffer.name: buffer for buffer in info.buffers}

    async def __aenter__(self) -> "Domain":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.delete()

    @property
    def name(self) -> str:
        """`sessions/{session_id}/domains/{domain_id}`."""
        return self.info.name

    @property
    def chips(self) -> List[int]:
        """Indices of the chips, in order of rank."""
        return list(self._chips)

    def __repr__(self) -> str:
        return f"<Domain {self.name} of chips {self._chips}>"

    def window(self, rank: int, name: str) -> Tensor:
        """A buffer of a rank's window, with its elements in one dimension. It is never mapped."""
        part = self._parts.get(name)
        if part is None:
            known = ", ".join(self._parts) or "none"
            raise errors.invalid(
                f"{self.name} has no buffer '{name}'; it has {known}", reason="BUFFER_UNKNOWN"
            )
        return self._part(rank, f"buffers/{name}", DType(part.dtype), part.count, part.bytes)

    def windows(self, name: str) -> List[Tensor]:
        """The buffers of this name, in order of rank."""
        return [self.window(rank, name) for rank in range(len(self._chips))]

    def signals(self, rank: int) -> Tensor:
        """The signals of a rank, as I64. `signals(rank)[i]` is one, for `Graph.notify` and
        `wait`."""
        count = self.info.signal_count
        return self._part(rank, "signals", DType.I64, count, 8 * count)

    def _part(self, rank: int, part: str, dtype: DType, count: int, size: int) -> Tensor:
        if not 0 <= rank < len(self._chips):
            raise errors.invalid(
                f"{self.name} has {len(self._chips)} ranks, and no rank {rank}",
                reason="RANGE_OUT_OF_BOUNDS",
            )
        path, chip = f"{self._path}/ranks/{rank}/{part}", self._chips[rank]
        # One for all, because it has the lock for writing.
        buffer = self._buffers.get(path)
        if buffer is None:
            buffer = Buffer(self.session, f"{self.session.name}/{path}", size, chip, False)
            buffer = self._buffers.setdefault(path, buffer)
        return Tensor(path, dtype, count, chip=chip, owner=buffer)

    async def notify(self, rank: int, signal: int, value: int, op: str = "set") -> int:
        """Sets a signal or adds to it, and wakes the tasks that wait for it; returns its value."""
        if op not in _OPERATIONS:
            raise errors.invalid(
                f"'{op}' is no operation: one of {', '.join(_OPERATIONS)}", "operation"
            )
        request = domain_pb2.NotifyRequest(
            name=self.name,
            rank=rank,
            signal=signal,
            operation=_OPERATIONS[op],
            value=value & (2**64 - 1),
        )
        return _signed((await self.session._api.DomainService.Notify(request)).value)

    async def read_signals(self, rank: int, first: int = 0, count: int = 0) -> np.ndarray:
        """Values of a rank's signals, as int64. A count of zero means all from the first on."""
        request = domain_pb2.ReadSignalsRequest(name=self.name, rank=rank, first=first, count=count)
        values = (await self.session._api.DomainService.ReadSignals(request)).values
        return np.array(values, np.uint64).view(np.int64)

    async def get(self) -> domain_pb2.Domain:
        """The domain as it is now."""
        return await self.session._api.DomainService.GetDomain(
            domain_pb2.GetDomainRequest(name=self.name)
        )

    async def revoke(self, reason: str = "") -> domain_pb2.Domain:
        """Fails the runs that use it, and refuses new ones."""
        request = domain_pb2.RevokeDomainRequest(name=self.name, reason=reason)
        return await self.session._api.DomainService.RevokeDomain(request)

    async def delete(self) -> None:
        """Frees its memory, after the runs that use it."""
        request = domain_pb2.DeleteDomainRequest(name=self.name, allow_missing=True)
        await self.session._api.DomainService.DeleteDomain(request)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


async def create_domain(
    session: Session,
    chips: List[int],
    buffers: Mapping[str, Any],
    signals: int,
    name: str,
    window_bytes: int,
    zero_before_run: Sequence[str],
) -> Domain:
    """CreateDomain."""
    request = domain_pb2.CreateDomainRequest(
        parent=session.name,
        domain_id=name or random_id("d"),
        chips=[f"chips/{chip}" for chip in chips],
        signal_count=signals,
        window_bytes=window_bytes,
    )
    for part, (count, dtype) in buffers.items():
        spec: Any = request.buffers.add(name=part, dtype=int(DType.of(dtype)), count=count)
        if part in zero_before_run:
            spec.zero_before_run = True
    await session._collect()
    return Domain(session, await session._api.DomainService.CreateDomain(request))

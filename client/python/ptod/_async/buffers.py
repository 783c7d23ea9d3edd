"""Buffers, and the tensors in them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Iterator, Optional, Tuple

import numpy as np

from ptod import _broker, _dlpack, _values, errors
from ptod._async import _io
from ptod._mapping import Mapping, map_buffer
from ptod.dtypes import DType
from ptod.v1 import buffer_pb2
from ptod.view import View, view_of_bytes

if TYPE_CHECKING:
    from ptod._async.session import Session

# Smaller transfers are faster over gRPC.
_LEAST_SHARED_BYTES = 64 << 10
# A buffer is mapped as a whole, so not for a small part of it.
_LEAST_PART = 8
_CHUNK_BYTES = 1 << 20
_BYTES_PER_SECOND = 64 << 20


class Buffer:
    """Memory on a chip. Deleted with the last tensor in it, or with its session."""

    def __init__(self, session: Session, name: str, size: int, chip: int, owned: bool) -> None:
        self.session = session
        #: Its full name.
        self.name = name
        #: Its size in bytes.
        self.size = size
        #: Index of its chip.
        self.chip = chip
        self._link = session._link if owned else None
        self._mapping: Optional[Mapping] = None
        # Also earlier ones that arrays still use.
        self._mappings: "weakref.WeakSet[Mapping]" = weakref.WeakSet()
        self._map_lock = _io.Lock()
        # Views are written by reading what is between their elements and writing that back.
        self._write_lock = _io.Lock()
        self._copied = 0
        self._end = weakref.finalize(self, session._garbage.append, name) if owned else None
        if self._end is not None:
            self._end.atexit = False

    async def map(self) -> Optional[Mapping]:
        """Its memory in this process; None if it cannot be mapped."""
        self.session.client._guard.check()
        async with self._map_lock:
            link = self._link
            if link is None:
                return None
            mapping = self._mapping
            if mapping is not None:
                if await _io.in_thread(link.check, mapping.region) != _broker.REGION_UNKNOWN:
                    return mapping
                self._mapping = None
            outcome, mapping = await _io.in_thread(
                map_buffer, link, self.name.rpartition("/")[2], self.size
            )
            if outcome in (_broker.DENIED, _broker.SESSION_GONE, _broker.BUFFER_GONE):
                self._link = None
            if mapping is not None:
                self._mappings.add(mapping)
                self.session._mapped.add(self)
                # Whoever closes the session or deletes the buffer may not have seen the mapping.
                if self.session._closed or self._link is None:
                    return None
                self._mapping = mapping
            return mapping

    async def _shared(self, size: int, strided: bool = False) -> Optional[Mapping]:
        """The mapping for a transfer of so many bytes, if that is worthwhile and allowed now."""
        self.session.client._guard.check()
        if self._link is None:
            return None
        if not (strided and self._mapping is not None):
            if size < _LEAST_SHARED_BYTES:
                return None
            self._copied += size
            if self._mapping is None and self._copied < self.size // _LEAST_PART:
                return None
        mapping = await self.map()
        return mapping if mapping is not None and await self._is_free(mapping) else None

    async def _is_free(self, mapping: Mapping) -> bool:
        return await _io.in_thread(mapping.link.check, mapping.region) == _broker.OK

    async def write(self, offset: int, data: np.ndarray) -> None:
        """Writes bytes. Fails while a run uses the buffer."""
        async with self._write_lock:
            mapping = await self._shared(data.size)
            if mapping is not None:
                await _io.finish_in_thread(mapping.write, offset, data)
                if await self._is_free(mapping):
                    return
            await self._send(offset, data)

    async def _write_view(self, view: View, values: np.ndarray) -> None:
        """Writes the elements of a view that has others between them."""
        first, size = view.offset * view.dtype.itemsize, view.span * view.dtype.itemsize
        async with self._write_lock:
            mapping = await self._shared(size, strided=True)
            if mapping is not None:
                await _io.finish_in_thread(mapping.write_view, view, values)
                if await self._is_free(mapping):
                    return
            data = await self.read(first, size)
            view_of_bytes(data, view, first)[...] = values
            await self._send(first, data)

    async def _send(self, offset: int, data: np.ndarray) -> None:
        method = self.session._api.BufferService.WriteBuffer
        if data.size <= _CHUNK_BYTES:
            request = buffer_pb2.WriteBufferRequest(
                name=self.name, offset=offset, data=data.tobytes()
            )
            await method.single(request)
        else:
            await method(_chunks(self.name, offset, data), timeout=self._timeout(data.size))

    async def read(self, offset: int, size: int) -> np.ndarray:
        """Reads bytes. Fails while a run uses the buffer."""
        data = np.empty(size, np.uint8)
        if size == 0:
            return data
        mapping = await self._shared(size)
        if mapping is not None:
            await _io.finish_in_thread(mapping.read, offset, data)
            if await self._is_free(mapping):
                return data
        request = buffer_pb2.ReadBufferRequest(name=self.name, offset=offset, limit=size)
        reader = self.session._api.BufferService.ReadBuffer(request, timeout=self._timeout(size))
        try:
            while True:
                part = await reader.read()
                if part is None:
                    return data
                first = part.offset - offset
                data[first : first + len(part.data)] = np.frombuffer(part.data, np.uint8)
        finally:
            reader.cancel()

    def _timeout(self, size: int) -> float:
        return self.session.client._guard.timeout + size / _BYTES_PER_SECOND

    def detach(self) -> None:
        """Lets arrays of this memory outlive the buffer. Raises MemoryError if there is no room for
        what they show."""
        self._link = None
        self._mapping = None
        for mapping in list(self._mappings):
            mapping.detach()

    async def delete(self) -> None:
        """Frees the memory, after the runs that use it. Arrays of it keep their contents."""
        if self._end is None:
            raise errors.invalid("buffers of a domain are deleted with it", "names")
        self.session.client._guard.check()
        if self._end.alive:
            self.detach()
            self._end.detach()
            request = buffer_pb2.DeleteBuffersRequest(names=[self.name], allow_missing=True)
            await self.session._api.BufferService.DeleteBuffers(request)


def _chunks(name: str, offset: int, data: np.ndarray) -> Iterator[buffer_pb2.WriteBufferRequest]:
    for first in range(0, data.size, _CHUNK_BYTES):
        part = data[first : first + _CHUNK_BYTES].tobytes()
        yield buffer_pb2.WriteBufferRequest(
            name=name if first == 0 else "", offset=offset + first, data=part
        )


async def array_of(data: Any, dtype: Any = None) -> Tuple[np.ndarray, DType]:
    """What becomes a tensor, or is written to one, as numbers and their type."""
    if not isinstance(data, Tensor):
        return _values.as_array(data, dtype)
    wanted = data.dtype if dtype is None else DType.of(dtype)
    return _values.convert(await data.read(), data.dtype, wanted), wanted


class Tensor(View):
    """A view of a buffer that exists: what tasks use, and where their numbers are.

    >>> x = s.tensor(np.arange(6).reshape(2, 3), np.float32)
    >>> x.shape, x.dtype.name, x.nbytes
    ((2, 3), 'F32', 24)
    >>> x[1].numpy()
    array([3., 4., 5.], dtype=float32)
    """

    __slots__ = ()

    @property
    def buffer(self) -> Buffer:
        """The buffer that it is a view of."""
        return self._owner

    async def numpy(self) -> np.ndarray:
        """The tensor as a numpy array, without a copy if possible.

        An array of a mapped buffer is its memory: runs see what is written to it, and it shows what
        they write; use it only while no run uses the buffer. Otherwise (another machine, a domain's
        window, a limit) the array is a copy that cannot be written. Fails while a run uses the
        buffer.
        """
        buffer = self._owner
        mapping = await buffer.map()
        if mapping is not None and await buffer._is_free(mapping):
            return view_of_bytes(mapping.expose(buffer), self)
        array = await self.read()
        array.flags.writeable = False
        return array

    async def read(self) -> np.ndarray:
        """A copy of the numbers. Fails while a run uses the buffer."""
        item = self.dtype.itemsize
        first = self.offset * item
        data = await self._owner.read(first, self.span * item)
        array = view_of_bytes(data, self, first)
        return array if self.is_contiguous else np.ascontiguousarray(array)

    async def write(self, values: Any) -> None:
        """Replaces the numbers by others of the same shape, or one that broadcasts to it.

        >>> y = s.empty((2, 2), np.int32)
        >>> y.write(7); y[:, 1].write([1, 2])
        >>> y.numpy()
        array([[7, 1],
               [7, 2]], dtype=int32)
        """
        array, _ = await array_of(values, self.dtype)
        array = np.broadcast_to(array, self.shape)
        if self.is_contiguous:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            await self._owner.write(self.offset * self.dtype.itemsize, data)
        else:
            await self._owner._write_view(self, array)

    async def torch(self) -> Any:
        """The tensor as one of torch, without a copy if possible: see `numpy`."""
        import torch

        array = await self.numpy()
        if not array.flags.writeable:
            array = array.copy()
        if self.dtype == DType.BF16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    async def delete(self) -> None:
        """Deletes the whole buffer now, and not only with its last tensor."""
        await self._owner.delete()

    # threads only
    # def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
    #     array = self.numpy()
    #     same = dtype is None or array.dtype == dtype
    #     if copy is False and not (same and array.flags.writeable):
    #         raise ValueError("the tensor has another type, or is not mapped: it must be copied")
    #     if not same:
    #         return array.astype(dtype)
    #     return array.copy() if copy else array
    #
    # def __dlpack__(
    #     self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
    #     copy: Optional[bool] = None,
    # ) -> Any:  # fmt: skip
    #     return _dlpack.export(self.numpy(), self.dtype, dl_device, copy)
    #
    # def __dlpack_device__(self) -> Any:
    #     return _dlpack.device()
    # end

"""Memory of buffers that this process maps."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from typing import Any, Optional, Tuple

import numpy as np

from ptod._broker import BrokerLink, Region
from ptod.view import View, view_of_bytes

_MAP_POPULATE = 0x8000  # mmap.MAP_POPULATE came with Python 3.10
_F_GET_SEALS, _F_SEAL_SHRINK = 1034, 2
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
]


def _unmap(address: int, size: int, link: BrokerLink, region: Region, process: int) -> None:
    _libc.munmap(address, size)
    if os.getpid() == process:
        link.release(region)


class Mapping:
    """The memory of one buffer. Unmapped with the last reference."""

    # Not Python's own mmap: that keeps a descriptor open for each mapping.
    def __init__(self, address: int, size: int, link: BrokerLink, region: Region) -> None:
        self.address, self.size, self.link, self.region = address, size, link, region
        self._detached = False
        self._views: "weakref.WeakSet[Exposed]" = weakref.WeakSet()
        end = weakref.finalize(self, _unmap, address, size, link, region, os.getpid())
        end.atexit = False

    def expose(self, owner: Any) -> np.ndarray:
        """The bytes as an array, which keeps `owner` alive."""
        view = Exposed(self, owner)
        self._views.add(view)
        return np.asarray(view)

    # Threads call these. What they call belongs to the mapping, so it lives until they return, even
    # if nobody waits for them any more.
    def write(self, offset: int, data: np.ndarray) -> None:
        """Copies bytes to the memory."""
        np.copyto(self._bytes()[offset : offset + data.size], data)

    def write_view(self, view: View, values: np.ndarray) -> None:
        """Copies numbers to the elements of a view, and touches nothing between them."""
        np.copyto(view_of_bytes(self._bytes(), view), values)

    def read(self, offset: int, data: np.ndarray) -> None:
        """Copies bytes out of the memory."""
        np.copyto(data, self._bytes()[offset : offset + data.size])

    def _bytes(self) -> np.ndarray:
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))

    def detach(self) -> None:
        """Gives arrays that still use the memory a private copy, before the buffer is deleted.
        Raises MemoryError if there is no room for it."""
        if self._detached or not self._views:
            return
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        copy = _libc.mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if copy == _FAILED:
            raise MemoryError(f"no {self.size} bytes for a copy of mapped memory")
        ctypes.memmove(copy, self.address, self.size)
        how = _MREMAP_MAYMOVE | _MREMAP_FIXED
        if _libc.mremap(copy, self.size, self.size, how, self.address) == _FAILED:
            _libc.munmap(copy, self.size)
            raise MemoryError(f"no {self.size} bytes in place of mapped memory")
        self._detached = True


class Exposed:
    """What numpy arrays of mapped memory refer to."""

    def __init__(self, mapping: Mapping, owner: Any) -> None:
        self._mapping, self._owner = mapping, owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (mapping.size,),
            "typestr": "|u1",
            "data": (mapping.address, False),
        }


def map_buffer(link: BrokerLink, buffer_id: str, size: int) -> Tuple[int, Optional[Mapping]]:
    """What the broker says, and a buffer's memory if it can be mapped. Nothing is left behind if
    the result is dropped."""
    outcome, descriptor, region = link.map(buffer_id, size)
    if region is None:
        return outcome, None
    mapping = _map_region(descriptor, size, link, region)
    if mapping is None:
        link.release(region)
    return outcome, mapping


def _map_region(descriptor: int, size: int, link: BrokerLink, region: Region) -> Optional[Mapping]:
    """Maps what the broker sent, and closes the descriptor. None if the memory is not sound."""
    try:
        # Memory that could shrink would end this process with SIGBUS.
        seals = fcntl.fcntl(descriptor, _F_GET_SEALS)
        if os.fstat(descriptor).st_size < size or not seals & _F_SEAL_SHRINK:
            return None
        flags = mmap.MAP_SHARED | _MAP_POPULATE
        address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
        return None if address == _FAILED else Mapping(address, size, link, region)
    except OSError:
        return None
    finally:
        os.close(descriptor)

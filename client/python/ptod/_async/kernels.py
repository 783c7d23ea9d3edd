"""Uploading kernels."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Iterator

from ptod import errors
from ptod.v1 import kernel_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_CHUNK_BYTES = 1 << 20
_Request: Any = kernel_pb2.RegisterKernelRequest


async def upload(session: Session, path: str, signature: str, name: str, entry: str) -> Any:
    """RegisterKernel."""
    if "signature" not in kernel_pb2.RegisterKernelRequest.DESCRIPTOR.fields_by_name:
        raise errors.local("this release has no uploaded kernels", "NOT_AVAILABLE", "UNIMPLEMENTED")
    with open(path, "rb") as file:
        data = file.read()
    first: Any = _Request(
        parent=session.name,
        kernel_id=name,
        file_bytes=len(data),
        sha256=hashlib.sha256(data).digest(),
        file_name=os.path.basename(path),
        entry=entry,
        signature=signature,
    )
    return await session._api.KernelService.RegisterKernel(_parts(first, data))


def _parts(first: Any, data: bytes) -> Iterator[Any]:
    first.data = data[:_CHUNK_BYTES]
    yield first
    for at in range(_CHUNK_BYTES, len(data), _CHUNK_BYTES):
        yield _Request(data=data[at : at + _CHUNK_BYTES])

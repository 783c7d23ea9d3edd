"""The methods of the API, taken from the .proto files: `api.RunService.SubmitRun(request)`."""

from __future__ import annotations

import collections
import re
import types
from typing import Any, Callable, Deque, Dict, List, Mapping, Sequence, Tuple

from google.protobuf import message_factory

from ptod import _fork, errors
from ptod.v1 import buffer_pb2, domain_pb2, event_pb2, kernel_pb2, node_pb2, run_pb2, session_pb2

_FILES = (buffer_pb2, domain_pb2, event_pb2, kernel_pb2, node_pb2, run_pb2, session_pb2)

# Calls that stay open, and bulk data, have connections of their own: others would wait behind them.
CONTROL, WAITING, BULK = range(3)
_LONG = {"WaitRun", "WatchEvents", "StreamRun", "LaunchStream"}
_LARGE = {"WriteBuffer", "ReadBuffer", "SubmitPackedRun", "RegisterPackedGraph", "RegisterKernel"}

CHANNEL_OPTIONS: Sequence[Tuple[str, Any]] = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 50),
)


# The daemon answers 1,024 calls of a connection at once. Waits leave room for streams.
MOST_WAITS = 768

# What can be done twice. Others only if they name what they make, or set something.
_REPEATABLE = re.compile(
    "(Get|List|Read)|(Create(Session|Buffers|Domain)|DeleteSession|RenewSession|RevokeDomain"
    "|RegisterGraph|WaitRun|CancelRun|ExplainRun|LeaseChips|SubmitRun|LaunchGraph|Notify)$"
)


def can_repeat(method: str, request: Any) -> bool:
    """Whether a call can be made again if the connection breaks before its answer."""
    if method in ("SubmitRun", "LaunchGraph"):
        return bool(request.run_id)
    if method == "Notify":
        return request.operation == domain_pb2.NotifyRequest.SET
    return _REPEATABLE.match(method) is not None


# For BULK, with threads: reading takes no thread of its own.
BULK_OPTIONS: Sequence[Tuple[str, Any]] = (("SingleThreadedUnaryStream", 1),)


class Guard:
    """What every call of a client needs."""

    __slots__ = ("address", "timeout", "metadata", "is_closed", "waits", "_generation")

    def __init__(self, address: str, timeout: float, token: str) -> None:
        self.address = address
        #: Seconds that a call may take if it does not say.
        self.timeout = timeout
        self.metadata = (("authorization", f"Bearer {token}"),) if token else None
        #: One entry for each call that waits.
        self.waits: Deque[None] = collections.deque()
        #: Whether the client was closed.
        self.is_closed = False
        self._generation = _fork.generation

    @property
    def is_forked(self) -> bool:
        """Whether this is another process than the client's."""
        return self._generation != _fork.generation

    def check(self) -> None:
        """Refuses to work in a forked process, and when the client was closed."""
        if self._generation != _fork.generation:
            raise _fork.error(self.address)
        if self.is_closed:
            raise errors.closed(self.address)


def _channel_of(method: str) -> int:
    if method in _LONG:
        return WAITING
    return BULK if method in _LARGE else CONTROL


def _class_of(descriptor: Any) -> Any:
    # GetMessageClass came with protobuf 4.22, which deprecates the other way.
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return descriptor._concrete_class


def make_api(
    channels: Sequence[Any], wrappers: Mapping[str, Callable[..., Any]], guard: Guard
) -> types.SimpleNamespace:
    """All services, with a callable for each method. `wrappers` make it, by the kind of the method:
    `unary_unary` and so on, as the methods of a channel."""
    services = {}
    for file in _FILES:
        for name, service in file.DESCRIPTOR.services_by_name.items():
            methods = {}
            for method in service.methods:
                sides: List[str] = [
                    "stream" if streams else "unary" for streams in _streams(service, method.name)
                ]
                kind = "_".join(sides)
                channel = channels[_channel_of(method.name)]
                arguments = (
                    f"/{service.full_name}/{method.name}",
                    _class_of(method.input_type).SerializeToString,
                    _class_of(method.output_type).FromString,
                )
                caller = wrappers[kind](getattr(channel, kind)(*arguments), method.name, guard)
                if kind == "stream_unary":
                    # A stream of one message looks like a single request, which needs no thread.
                    caller.single = wrappers["unary_unary"](
                        channel.unary_unary(*arguments), method.name, guard
                    )
                if kind == "unary_unary" and "wait" in method.input_type.fields_by_name:
                    caller.waiting = getattr(channels[WAITING], kind)(*arguments)
                methods[method.name] = caller
            services[name] = types.SimpleNamespace(**methods)
    return types.SimpleNamespace(**services)


def _streams(service: Any, method: str) -> Tuple[bool, bool]:
    # Python's descriptors say it only from protobuf 4.22 on; their own message always did.
    file = _proto_of(service.file)
    for candidate in file.service:
        if candidate.name == service.name:
            for each in candidate.method:
                if each.name == method:
                    return each.client_streaming, each.server_streaming
    raise LookupError(method)


def _proto_of(file: Any) -> Any:
    if file.name not in _PROTOS:
        from google.protobuf import descriptor_pb2

        _PROTOS[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    return _PROTOS[file.name]


_PROTOS: Dict[str, Any] = {}

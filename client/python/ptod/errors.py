"""What can go wrong, as exceptions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import grpc

from ptod.v1 import error_pb2

_DETAILS = "grpc-status-details-bin"
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


class Error(Exception):
    """An error of the daemon, or of the way to it.

    >>> try:
    ...     s.empty(4, chip=99)
    ... except ptod.Error as error:
    ...     print(error.reason, error.field)
    CHIP_UNKNOWN buffers[0].chip
    """

    #: The gRPC code, such as `NOT_FOUND`.
    code: str
    #: Stable identity for programs, such as `CHIP_UNKNOWN`. Empty if the daemon gave none.
    reason: str
    #: What went wrong and where, without the hint.
    message: str
    #: The path in the request, such as `graph.tasks[3].args[1]`. Empty if it is about no field.
    field: str
    #: What can no longer be used: REQUEST, TASK, RUN, DOMAIN, SESSION, CHIP or NODE.
    scope: str
    #: Which part of ptod decided.
    mechanism: str
    #: What to do next.
    hint: str
    #: Where to read more, such as `deploy/docs/errors/chips.md#chip_unknown`.
    page: str
    #: Every value that the message mentions, by name.
    metadata: Dict[str, str]
    #: The limit that was hit, if one was: name, limit, usage and what was asked for.
    quota: Optional[Tuple[str, int, int, int]]
    #: Seconds after which a retry makes sense. None if the daemon does not say.
    retry_delay: Optional[float]

    def __init__(
        self,
        message: str,
        *,
        code: str = "UNKNOWN",
        reason: str = "",
        field: str = "",
        scope: str = "",
        mechanism: str = "",
        hint: str = "",
        page: str = "",
        metadata: Optional[Mapping[str, str]] = None,
        quota: Optional[Tuple[str, int, int, int]] = None,
        retry_delay: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.field = field
        self.scope = scope
        self.mechanism = mechanism
        self.hint = hint
        self.page = page
        self.metadata = dict(metadata or {})
        self.quota = quota
        self.retry_delay = retry_delay

    def __str__(self) -> str:
        text = f"{self.message} ({self.reason or self.code})"
        if self.hint:
            text += f"\n  hint: {self.hint}"
        if self.page:
            text += f"\n  more: {self.page}"
        return text

    def __reduce__(self) -> Tuple[Any, ...]:
        # An exception with keyword arguments needs help to get from one process to another.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


class RunFailed(Error):
    """A run has failed or was cancelled. The attributes are those of its first error."""

    #: The run, `sessions/{session_id}/runs/{run_id}`.
    run: str = ""
    #: `FAILED` or `CANCELLED`.
    state: str = ""
    #: The run's other errors, in order of time.
    more: List[Error]


class SessionLost(Error):
    """The session has ended: its lease expired, somebody deleted it, or the daemon restarted."""


class Timeout(Error, TimeoutError):
    """There was no answer in time. What was asked for may still happen."""


class ForkError(Error):
    """A client is used in a process that was forked from its own."""


_LOST = {"SESSION_ENDED", "SESSION_UNKNOWN", "BOOT_ID_CHANGED"}


def _rebuild(kind: type, message: str, state: Dict[str, Any]) -> Error:
    error = kind(message)
    error.__dict__.update(state)
    return error


def from_status(status: error_pb2.Status, kind: Optional[type] = None) -> Error:
    """The exception for an error that the daemon reports as data."""
    fields: Dict[str, Any] = {"code": _CODES.get(status.code, "UNKNOWN")}
    for detail in status.details:
        if detail.Is(error_pb2.ErrorInfo.DESCRIPTOR):
            info = error_pb2.ErrorInfo.FromString(detail.value)
            scope = error_pb2.ErrorScope.Name(info.scope).replace("ERROR_SCOPE_", "")
            fields.update(reason=info.reason, scope=scope, mechanism=info.mechanism)
            fields.update(hint=info.hint, page=info.help, metadata=dict(info.metadata))
        elif detail.Is(error_pb2.FieldViolation.DESCRIPTOR):
            fields["field"] = error_pb2.FieldViolation.FromString(detail.value).field
        elif detail.Is(error_pb2.QuotaViolation.DESCRIPTOR):
            quota = error_pb2.QuotaViolation.FromString(detail.value)
            fields["quota"] = (quota.quota, quota.limit, quota.usage, quota.requested)
        elif detail.Is(error_pb2.RetryInfo.DESCRIPTOR):
            delay = error_pb2.RetryInfo.FromString(detail.value).retry_delay
            fields["retry_delay"] = delay.seconds + delay.nanos / 1e9
    if kind is None:
        kind = SessionLost if fields.get("reason") in _LOST else Error
        if fields["code"] == "DEADLINE_EXCEEDED":
            kind = Timeout
    return kind(status.message, **fields)


def from_rpc(error: grpc.RpcError, method: str, address: str) -> Error:
    """The exception for a call that failed."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            status = error_pb2.Status.FromString(value)
            if status.code:
                return from_status(status)
    code = error.code().name
    if code == "UNAVAILABLE":
        return local(
            f"{method}: the daemon at {address} cannot be reached: {error.details()}",
            "DAEMON_UNREACHABLE",
            code,
            scope="NODE",
            hint="is ptod running, and does the address name its socket?",
        )
    if code == "DEADLINE_EXCEEDED":
        return timeout(f"{method}: no answer from {address} in time")
    return Error(f"{method}: {error.details()}", code=code)


def is_broken(error: grpc.RpcError) -> bool:
    """Whether there was no answer because the connection broke."""
    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return False
    return all(key != _DETAILS for key, _ in error.trailing_metadata() or ())


# Where to read about the errors that the client makes itself.
_PAGES = {
    "BUFFER_UNKNOWN": "deploy/docs/errors/buffers.md",
    "CLIENT_CLOSED": "client/python/README.md",
    "CLIENT_FORKED": "client/python/README.md",
    "CLIENT_TIMEOUT": "deploy/docs/errors/client.md",
    "DAEMON_UNREACHABLE": "deploy/docs/errors/client.md",
    "FIELD_INVALID": "deploy/docs/errors/requests.md",
    "NOT_AVAILABLE": "deploy/docs/errors/requests.md",
    "RANGE_OUT_OF_BOUNDS": "deploy/docs/errors/buffers.md",
    "SCALAR_COUNT": "deploy/docs/errors/graphs.md",
    "SCALAR_INVALID": "deploy/docs/errors/graphs.md",
    "SCALAR_UNKNOWN": "deploy/docs/errors/graphs.md",
    "SESSION_ENDED": "deploy/docs/errors/sessions.md",
    "STREAM_ENDED": "deploy/docs/errors/client.md",
    "USAGE": "deploy/docs/errors/client.md",
}


def local(
    message: str,
    reason: str,
    code: str,
    kind: type = Error,
    *,
    field: str = "",
    scope: str = "REQUEST",
    hint: str = "",
) -> Any:
    """An error that the client makes itself, of this class."""
    return kind(
        message,
        code=code,
        reason=reason,
        field=field,
        scope=scope,
        mechanism="client",
        hint=hint,
        page=f"{_PAGES[reason]}#{reason.lower()}",
    )


def timeout(message: str) -> Timeout:
    """The error of a client that does not wait any longer."""
    hint = "raise the timeout, or look at the daemon's log"
    return local(message, "CLIENT_TIMEOUT", "DEADLINE_EXCEEDED", Timeout, hint=hint)


def closed(address: str) -> Error:
    """The error of calls of a client that was closed."""
    message = f"this client of {address} was closed"
    return local(message, "CLIENT_CLOSED", "FAILED_PRECONDITION", hint="connect again")


def stream_ended(message: str = "the stream has ended") -> Error:
    """The error of a stream that takes or gives nothing more."""
    return local(message, "STREAM_ENDED", "OUT_OF_RANGE")


def invalid(message: str, field: str = "", reason: str = "FIELD_INVALID") -> Error:
    """The error for arguments that no daemon could accept."""
    return local(message, reason, "INVALID_ARGUMENT", field=field)

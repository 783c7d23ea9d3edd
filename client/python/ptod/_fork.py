"""Noticing a fork: gRPC's connections do not survive one."""

from __future__ import annotations

import os

from ptod import errors

#: Rises in each child process.
generation = 0


def _count() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_count)


def error(address: str) -> errors.ForkError:
    """What a client says that was taken along into a child process."""
    return errors.local(
        f"this client of {address} belongs to the parent process and cannot be used after a fork",
        "CLIENT_FORKED",
        "FAILED_PRECONDITION",
        errors.ForkError,
        hint="connect again in the child, or start processes with the method 'spawn'",
    )

"""A private daemon, which never outlives this process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import weakref
from typing import Dict, List, NamedTuple, Optional

from ptod import errors
from ptod._names import random_id

_STOP_SECONDS = 10
_SHOWN_LOG_BYTES = 4096


class Start(NamedTuple):
    """What to start."""

    binary: str
    flags: List[str]
    env: Optional[Dict[str, str]]


def environment(name: str) -> str:
    """A variable of the environment; empty if it is not set."""
    return os.environ.get(name, "")


def client_name() -> str:
    """What this client calls itself in lists."""
    return f"uid-{os.getuid()}"


def random_key() -> bytes:
    """A secret that lets this process map the buffers of its session."""
    return os.urandom(32)


def find_binary(given: str = "") -> str:
    """The path of ptod: see `local`."""
    packaged = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "ptod")
    for path in (given, environment("PTOD_BINARY")):
        if path:
            return path
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which("ptod")
    if found:
        return found
    raise errors.local(
        "there is no program `ptod` to start a private daemon with",
        "DAEMON_UNREACHABLE",
        "NOT_FOUND",
        hint="install the package ptod or the wheel that contains it, or set PTOD_BINARY",
    )


class Daemon:
    """A process of ptod on a unix socket of its own."""

    def __init__(self, start: Start) -> None:
        directory = environment("XDG_RUNTIME_DIR")
        if not directory or not os.access(directory, os.W_OK):
            directory = "/tmp"  # the path of a socket is short: TMPDIR may not be
        self.path = os.path.join(directory, random_id("ptod") + ".sock")
        self.address = f"unix:{self.path}"
        # Without a name: nothing is left of it, whatever ends this process.
        with tempfile.TemporaryFile() as log:
            self._log = os.dup(log.fileno())
        weakref.finalize(self, os.close, self._log)
        command = [find_binary(start.binary), f"--listen={self.address}", "--drain-grace=0s"]
        # Not a signal at the parent's death, which comes when the *thread* ends that started it.
        command += [f"--exit-with={os.getpid()}", *start.flags]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=None if start.env is None else {**os.environ, **start.env},
            start_new_session=True,  # Ctrl-C is for the program, not for its daemon
        )
        self._end = weakref.finalize(self, _stop, self._process, self.path, os.getpid())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def status(self) -> Optional[int]:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """What it has logged so far."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, size, 0).decode("utf-8", "replace")

    def is_listening(self) -> bool:
        """Whether clients can connect."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.path) == 0

    def check(self, in_time: bool) -> None:
        """Fails if the daemon has ended, or is too late."""
        status = self._process.poll()
        if status is None and in_time:
            return
        problem = "does not listen in time" if status is None else f"has ended with status {status}"
        raise errors.local(
            f"the private daemon {problem}:\n{self.log()[-_SHOWN_LOG_BYTES:]}".rstrip(),
            "DAEMON_UNREACHABLE",
            "UNAVAILABLE",
            scope="NODE",
        )

    def stop(self) -> None:
        """Ends it, and waits for its end."""
        self._end()


def _stop(process: "subprocess.Popen[bytes]", path: str, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child, whose parent still uses it
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # It removes its files itself, unless it was killed.
    for suffix in ("", ".lock", ".mem", ".mem.lock"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            pass

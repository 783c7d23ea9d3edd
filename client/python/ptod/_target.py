"""Which daemon to talk to, and how: addresses, contexts of ptoctl, TLS, tokens."""

from __future__ import annotations

import ipaddress
import os
import stat
from typing import List, NamedTuple, Optional, Tuple

import grpc
from google.protobuf import text_format

from ptod import errors
from ptod.v1 import contexts_pb2

_SYSTEM_ADDRESS = "unix:/run/ptod/ptod.sock"
_MOST_TOKEN_BYTES = 4096


class Target(NamedTuple):
    """A daemon and the credentials for it. Empty fields come from the environment."""

    address: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    token_file: str = ""


def resolve(given: Target, context: str = "") -> Target:
    """Fills in what was not given: from a context of `ptoctl context`, then from the
    environment."""
    if context or not (given.address or os.environ.get("PTOD_ADDRESS")):
        found = _find_context(context)
        if found is not None:
            given = Target(
                *(own or getattr(found, name) for own, name in zip(given, Target._fields))
            )
    variables = ("ADDRESS", "TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_SERVER_NAME", "TOKEN_FILE")
    target = Target(
        *(own or os.environ.get(f"PTOD_{name}", "") for own, name in zip(given, variables))
    )
    return target if target.address else target._replace(address=_default_address())


def make_channel_parts(
    target: Target,
) -> Tuple[Optional[grpc.ChannelCredentials], List[Tuple[str, str]]]:
    """The credentials and options of a channel. No credentials: nothing is encrypted."""
    if target.address.startswith("unix"):
        return None, []
    if bool(target.tls_cert) != bool(target.tls_key):
        raise errors.invalid("a client certificate and its key belong together", "tls")
    if not target.tls_ca:
        if target.tls_cert:
            raise errors.invalid(
                "a client certificate also needs the authorities of the daemon's", "tls.ca_file"
            )
        return None, []
    credentials = grpc.ssl_channel_credentials(
        _read_pem(target.tls_ca, "tls.ca_file"),
        _read_pem(target.tls_key, "tls.key_file") if target.tls_key else None,
        _read_pem(target.tls_cert, "tls.cert_file") if target.tls_cert else None,
    )
    name = target.tls_server_name
    return credentials, [("grpc.ssl_target_name_override", name)] if name else []


def find_token(target: Target, encrypted: bool) -> str:
    """The bearer token; empty if there is none, and on unix sockets, which know their user."""
    if target.address.startswith("unix") or not target.token_file:
        return ""
    if not encrypted and not _is_loopback(target.address):
        raise errors.invalid(
            f"the connection to {target.address} is not encrypted, so no token is sent over it; "
            "use TLS, a loopback address, or the unix socket",
            "token_file",
        )
    return _read_token(target.token_file)


def _default_address() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() != 0 and runtime and os.path.exists(f"{runtime}/ptod.sock"):
        return f"unix:{runtime}/ptod.sock"
    return _SYSTEM_ADDRESS


def _find_context(name: str) -> Optional[contexts_pb2.NamedContext]:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.environ.get("PTOD_CONTEXTS") or f"{config}/ptod/contexts.txtpb"
    contexts = contexts_pb2.Contexts()
    try:
        with open(path, encoding="utf-8") as file:
            text_format.Parse(file.read(), contexts)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, text_format.ParseError) as error:
        raise errors.invalid(
            f"the contexts in {path} cannot be read: {error}", reason="USAGE"
        ) from None
    name = name or contexts.current
    for context in contexts.contexts:
        if context.name == name:
            return context
    if not name:
        return None
    raise errors.invalid(
        f"{path} has no context '{name}'; list them with `ptoctl context ls`", reason="USAGE"
    )


def _read_pem(path: str, field: str) -> bytes:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise errors.invalid(f"cannot read {path}: {error.strerror}", field) from None
    # gRPC would report anything else only as a failed handshake.
    if b"-----BEGIN " not in text:
        raise errors.invalid(f"{path} is not a PEM file: it has no line -----BEGIN", field)
    return text


def _is_loopback(address: str) -> bool:
    # Not by the first characters: `127.0.0.1.example.com` is the name of another machine.
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(path: str) -> str:
    def wrong(what: str) -> errors.Error:
        return errors.invalid(f"the token file {path} {what}", "token_file")

    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_TOKEN_BYTES).strip()
    except OSError as error:
        raise wrong(f"cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise wrong("is no file")
    if mode & 0o077:
        raise wrong("can be read by others; run chmod 600 on it")
    if not text or not all(0x21 <= byte <= 0x7E for byte in text):
        raise wrong("has no token")
    return text.decode("ascii")

"""The socket that a server listens at."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from relatum.errors import RelatumError


def bind(host: str, port: int) -> socket.socket:
    """Return a socket to listen at; with port 0 the system chooses a free port."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise RelatumError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror or error}); choose another port, or 0 "
            "for any that is free"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_local(listener: socket.socket) -> bool:
    """True if only programs on this machine can reach the listener."""
    return ip_address(listener.getsockname()[0]).is_loopback

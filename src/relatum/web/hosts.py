"""The host names that a server answers to.

A page from elsewhere can give its own host name the address of this machine (DNS rebinding); browsers then treat our
answers as the page's own. The requests still carry the page's host name, by which we can refuse them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from relatum.errors import ConfigError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
NAME = re.compile(r"[a-z0-9._-]+", re.IGNORECASE)
HOST = re.compile(rf"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>{NAME.pattern}))(?::[0-9]{{0,5}})?", re.IGNORECASE)


def hosts_of(bound: Iterable[str], is_local: bool, allowed: Iterable[str] = ()) -> frozenset[str] | None:
    """Return the host names that a server answers to; None if it answers to any name.

    `bound` are the names of the address that the server is bound to. If only this machine reaches the server, or some
    names are `allowed`, it answers to the loopback names, the bound names and the allowed names only.
    """
    more = [_checked(name) for name in allowed]
    if not (is_local or more):
        return None
    return frozenset(_same(name) for name in (*LOOPBACK, *bound, *more))


def host_in(header: str) -> str | None:
    """Return the host in a Host header, without its port, as `hosts_of` writes it; None if there is no valid host."""
    found = HOST.fullmatch(header.strip())
    return None if found is None else _same(found["address"] or found["name"])


def _checked(name: str) -> str:
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if not (_is_address(bare) if ":" in bare or bare != name else NAME.fullmatch(bare)):
        raise ConfigError(
            f"--allow-host {name}: expected the name of a host, such as example.org, without http:// and without a port"
        )
    return bare


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _same(name: str) -> str:
    """Return the canonical form of a host name or address."""
    try:
        return ip_address(name).compressed
    except ValueError:
        return name.lower().removesuffix(".")

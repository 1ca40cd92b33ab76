"""Which names a server answers to.

A page from elsewhere can give its own host name the address of this machine (DNS rebinding); browsers then take what we
answer for its own. The requests still carry that name, by which they are told apart.
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
    """The names that a server answers to that is bound to these names of one address; None is any.

    Where only this machine reaches it, or names are allowed, those are all: they, its own and those of this machine.
    """
    more = [_checked(name) for name in allowed]
    if not (is_local or more):
        return None
    return frozenset(_same(name) for name in (*LOOPBACK, *bound, *more))


def host_in(header: str) -> str | None:
    """The host that a Host header names, without its port, as `hosts_of` writes it; None where it names none."""
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
    """One way to write a host that can be written in several."""
    try:
        return ip_address(name).compressed
    except ValueError:
        return name.lower().removesuffix(".")

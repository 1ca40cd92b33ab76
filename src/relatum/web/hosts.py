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
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{0,5})?", re.IGNORECASE)


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
    host = name if ":" not in name or name.startswith("[") else f"[{name}]"
    found = HOST.fullmatch(host)
    if found is None or host != (f"[{found['address']}]" if found["address"] else found["name"]):
        raise ConfigError(
            f"--allow-host {name}: expected the name of a host, such as example.org, without http:// and without a port"
        )
    return found["address"] or found["name"]


def _same(name: str) -> str:
    """One way to write a host that can be written in several."""
    try:
        return ip_address(name).compressed
    except ValueError:
        return name.lower().removesuffix(".")

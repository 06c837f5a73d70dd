"""Servers that may be asked for a scene: any that the user names, public ones for a stranger's file.

GDAL and other libraries resolve the host again when they fetch, and follow redirects; these are not checked.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from tiling.errors import AddressForbidden, SceneUnreachable

if TYPE_CHECKING:
    from tiling.location import Location

_CURL = "/vsicurl/"
_HOST = r"\[[0-9a-f:.]+\]|[a-z0-9._-]+"
# What every library reads the same way: nothing encoded, ASCII only, one @ at most.
_ADDRESS = re.compile(
    rf"(https?)://(?:[\w.~!$&'()*+,;=:%-]*@)?({_HOST})(?::(\d{{1,5}}))?(?=[/?#]|\Z)", re.ASCII | re.IGNORECASE
)
_PORTS = {"http": 80, "https": 443}
# A bucket becomes part of a host name, a container part of a path.
_BUCKET = re.compile(r"/vsi\w+/[a-z0-9$][a-z0-9._$-]*/", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)", re.ASCII | re.IGNORECASE)
# IPv6 networks whose last four bytes are an IPv4 address.
_EMBEDDING = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))


@dataclass(frozen=True)
class Access:
    """Which servers may be asked.

    Attributes:
        offline: none.
        hosts: None: any, since the user named the scene. Otherwise a stranger did: public hosts and these,
            ``host`` or ``host:port``, IPv6 in brackets.
    """

    offline: bool = False
    hosts: tuple[str, ...] | None = None

    def check(self, location: Location) -> None:
        """Check that a scene may be opened, before its server is asked.

        Raises:
            AddressForbidden: it may not.
            SceneUnreachable: its host has no address.
        """
        if location.local is not None:
            return
        if location.source.startswith(_CURL):
            self.check_address(location.shown, location.source.removeprefix(_CURL))
            return
        self._check_offline(location.shown)
        # The environment sets the host of buckets; the name of a bucket must not change it.
        if self.hosts is not None and not _BUCKET.match(location.source):
            raise AddressForbidden(f"{location.shown}: this is no name of a bucket; correct the address")

    def check_address(self, shown: str, address: str) -> None:
        """Check that an address of the web may be opened; ``shown`` is its name in messages."""
        self._check_offline(shown)
        if self.hosts is None:
            return
        parts = _ADDRESS.match(address)
        if parts is None:
            raise AddressForbidden(f"{shown}: this address is ambiguous; correct it")
        scheme, host, port = parts[1].lower(), parts[2].lower(), parts[3]
        number = int(port) if port else _PORTS[scheme]
        if not {host, f"{host}:{number}"}.isdisjoint(map(str.lower, self.hosts)):
            return
        for found in _addresses(shown, host, number):
            if not _is_public(found):
                raise AddressForbidden(
                    f"{shown}: {host} ({found}) is not public, and a table, catalog or report may not lead "
                    f"there; allow it with --allow-host {host}"
                )

    def _check_offline(self, shown: str) -> None:
        if self.offline:
            raise AddressForbidden(
                f"{shown}: this is on a server, and --offline is set; download it or drop the option"
            )


ANYWHERE = Access()
"""For scenes that the user named."""
OFFLINE = Access(offline=True)
"""For scenes on this machine."""


def _addresses(shown: str, host: str, port: int) -> list[IPv4Address | IPv6Address]:
    """Return all IP addresses of a host."""
    if host.startswith("[") or _NUMBER.fullmatch(host.rstrip(".")):
        try:
            return [ip_address(host.strip("[]"))]
        except ValueError as error:
            # 127.1, 0x7f.1 and 2130706433 are loopback as well.
            raise AddressForbidden(f"{shown}: {host} is no valid IP address; write it as a.b.c.d") from error
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SceneUnreachable(
            f"{shown}: the host {host} is unknown; check it and the connection (if only a proxy knows it: "
            f"--allow-host {host})"
        ) from error
    return [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is a public host, also where it embeds an IPv4 address."""
    if isinstance(address, IPv6Address):
        inner = address.sixtofour or (address.teredo[1] if address.teredo else None)
        if any(address in network for network in _EMBEDDING):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast

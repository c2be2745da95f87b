"""Hosts that are addresses of the loopback interface: for tests that cut no links, and so need no root."""

from __future__ import annotations

import os
from dataclasses import dataclass

FIRST_HOST = 11


@dataclass(frozen=True)
class LoopbackHost:
    """An address for clients and one for peers."""

    front: str
    back: str
    launcher: tuple[str, ...] = ()


class Loopback:
    """A network below 127.0.0.0/8 for this process, with this machine at `address`."""

    def __init__(self) -> None:
        pid = os.getpid()
        # 127.0 and 127.255 contain the host itself and the broadcast address.
        self.prefix = f"127.{1 + pid // 127 % 254}"
        self.number = pid % 127
        self.address = "127.0.0.1"
        self.hosts: dict[str, LoopbackHost] = {}

    def add(self, name: str) -> LoopbackHost:
        host = FIRST_HOST + len(self.hosts)
        front, back = (f"{self.prefix}.{2 * self.number + link}.{host}" for link in (0, 1))
        self.hosts[name] = LoopbackHost(front, back)
        return self.hosts[name]

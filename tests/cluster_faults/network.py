"""Network namespaces on this machine, each with two links: to clients and the origin, and to the other namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass

# Networks for benchmarks of network devices (RFC 2544): no host of the Internet has such an address.
FRONT_NETWORKS, BACK_NETWORKS = "198.18", "198.19"
FIRST_HOST = 11
NEEDED_COMMANDS = ("ip", "tc")


class NetworkFailed(Exception):
    """A command that sets up the network failed."""


@dataclass(frozen=True)
class Host:
    """A namespace, its addresses, and the outer ends of its links."""

    namespace: str
    front: str
    back: str
    outer_ends: dict[str, str]

    @property
    def launcher(self) -> tuple[str, ...]:
        """Returns the command that executes another one in the namespace, in the same process."""
        return ("ip", "netns", "exec", self.namespace)


class Network:
    """Two bridges and the namespaces attached to them. `front` has an address of this machine, for clients and the
    origin; `back` has none, so that hosts reach only each other there."""

    LINKS = ("front", "back")

    def __init__(self) -> None:
        pid = os.getpid()
        self.prefix = f"stylobate-{pid}"
        # A device name has at most 15 characters.
        self.bridges = {link: f"s{link[0]}{pid}" for link in self.LINKS}
        self.hosts: dict[str, Host] = {}
        self.slowed: set[tuple[str, str]] = set()
        self.number = _free_network()
        self.address = f"{FRONT_NETWORKS}.{self.number}.1"
        try:
            for bridge in self.bridges.values():
                run("ip", "link", "add", bridge, "type", "bridge")
                run("ip", "link", "set", bridge, "up")
            run("ip", "address", "add", f"{self.address}/24", "dev", self.bridges["front"])
        except NetworkFailed:
            self.remove()
            raise

    def add(self, name: str) -> Host:
        """Creates a namespace and its links."""
        namespace = f"{self.prefix}-{name}"
        number = FIRST_HOST + len(self.hosts)
        addresses = {
            link: f"{network}.{self.number}.{number}"
            for link, network in zip(self.LINKS, (FRONT_NETWORKS, BACK_NETWORKS), strict=True)
        }
        ends = {link: f"{bridge}-{name}" for link, bridge in self.bridges.items()}
        host = Host(namespace, addresses["front"], addresses["back"], ends)
        # It is removed with the others, even if a later step fails.
        self.hosts[name] = host

        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        for link, end in ends.items():
            run("ip", "link", "add", end, "type", "veth", "peer", "name", link, "netns", namespace)
            run("ip", "link", "set", end, "master", self.bridges[link], "up")
            run("ip", "-n", namespace, "address", "add", f"{addresses[link]}/24", "dev", link)
            run("ip", "-n", namespace, "link", "set", link, "up")
        return host

    def cut(self, name: str, link: str) -> None:
        """Cuts a link: packets are lost, and connections are not notified."""
        run("ip", "link", "set", self.hosts[name].outer_ends[link], "down")

    def join(self, name: str, link: str) -> None:
        """Restores a link."""
        run("ip", "link", "set", self.hosts[name].outer_ends[link], "up")

    def slow(self, name: str, link: str, rate: str) -> None:
        """Limits the rate of a link in each direction, e.g. to `4mbit` (bits per second)."""
        host = self.hosts[name]
        shape = ("root", "tbf", "rate", rate, "burst", "32kb", "latency", "300ms")
        self.slowed.add((name, link))
        run("tc", "-n", host.namespace, "qdisc", "replace", "dev", link, *shape)
        run("tc", "qdisc", "replace", "dev", host.outer_ends[link], *shape)

    def mend(self) -> None:
        """Restores all links and removes all limits."""
        for name, link in sorted(self.slowed):
            host = self.hosts[name]
            run("tc", "-n", host.namespace, "qdisc", "delete", "dev", link, "root")
            run("tc", "qdisc", "delete", "dev", host.outer_ends[link], "root")
        self.slowed.clear()
        for name in self.hosts:
            for link in self.LINKS:
                self.join(name, link)

    def remove(self) -> None:
        """Removes everything that was created, as far as it exists, and ends processes that still run in the namespaces."""
        for host in self.hosts.values():
            for pid in _run_anyway("ip", "netns", "pids", host.namespace).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            for end in host.outer_ends.values():
                _run_anyway("ip", "link", "delete", end)
            _run_anyway("ip", "netns", "delete", host.namespace)
        for bridge in self.bridges.values():
            _run_anyway("ip", "link", "delete", bridge)


def unavailable() -> str | None:
    """Returns why this machine cannot have such a network, in one line; `None` if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [command for command in NEEDED_COMMANDS if not shutil.which(command)]:
        return f"{' and '.join(missing)} of iproute2 is missing"
    try:
        network = Network()
        try:
            network.add("a")
            network.slow("a", "back", "4mbit")
            network.mend()
        finally:
            network.remove()
    except NetworkFailed as failed:
        return f"network namespaces do not work here: {failed}"
    return None


def run(*command: str) -> str:
    """Returns what a command prints."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise NetworkFailed(f"{' '.join(command)}: {reason}")
    return done.stdout


def _run_anyway(*command: str) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout


def _free_network() -> int:
    """Returns the third octet for a network in which this machine has no address."""
    interfaces = json.loads(run("ip", "-json", "address"))
    taken = {address["local"].rpartition(".")[0] for each in interfaces for address in each.get("addr_info", [])}
    free = (n for n in range(1, 255) if not taken & {f"{FRONT_NETWORKS}.{n}", f"{BACK_NETWORKS}.{n}"})
    if (number := next(free, None)) is None:
        raise NetworkFailed(f"all networks below {FRONT_NETWORKS} are taken")
    return number

"""What processes listen on, as the kernel has it: sockets of /proc, no tool needed."""

import os
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from sys import byteorder

from tests.faults.processes import Process

#: A TCP socket that listens, in `/proc/net/tcp`.
_LISTENS = "0A"

Listening = tuple[IPv4Address | IPv6Address, int, str]


def listening(processes: Sequence[Process]) -> list[Listening]:
    """Return address, port and title of what processes hold open for others to connect to."""
    owners: dict[str, Process] = {}
    for process in processes:
        for link in Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                owners[target.removeprefix("socket:[").removesuffix("]")] = process
    found: list[Listening] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            local, state, inode = fields[1], fields[3], fields[9]
            if state == _LISTENS and inode in owners:
                address, _, port = local.partition(":")
                found.append((_address(address), int(port, 16), owners[inode].title[:40]))
    return found


def is_loopback(address: IPv4Address | IPv6Address) -> bool:
    """Whether only this machine reaches an address; 127.0.0.1 may be written as IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _address(digits: str) -> IPv4Address | IPv6Address:
    """Words of 32 bits, each in this machine's order of bytes."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    return ip_address(b"".join(int.from_bytes(word).to_bytes(4, byteorder) for word in words))

#!/usr/bin/env -S python3 -B
"""Two machines on this one, for parallel runs: two network namespaces with host names of their own,
connected by a network of a given latency and bandwidth, which can be cut.

The network is a pair of TUN devices. Packets between them are passed on by a process of its own,
`two_machines.py DESCRIPTOR DESCRIPTOR LATENCY BANDWIDTH`: tc netem does the same, but many kernels
do not have it.
"""

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

from runs import Skipped

MTU = 9000  # bytes of a packet; jumbo frames, since each packet takes the relay some microseconds
QUEUE = 2 << 20  # bytes that wait for a direction of the network; further packets are lost
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
ADDRESSES = "10.231.7.1", "10.231.7.2"
DEVICES = "machine1", "machine2"  # and names of the machines
DIES_WITH_PARENT = "setpriv", "--pdeathsig", "KILL"

# By these mpirun notices that another machine cannot be reached; without them, it waits for that
# machine for up to 15 minutes: KEEPALIVE while it has nothing to send, RETRIES while it has.
RETRIES = 5  # of TCP packets, within 13 seconds
KEEPALIVE = {"oob_tcp_keepalive_time": 1, "oob_tcp_keepalive_intvl": 1,
             "oob_tcp_keepalive_probes": 2}


def command(*arguments):
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL)


def open_tun(name):
    """The descriptor of a new TUN device."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


def namespace_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


class TwoMachines:
    """This process and those that it starts are on the first machine; it has to have a network
    namespace and a UTS namespace of its own (`enter_namespaces("nu", ...)`).

    latency    seconds from one machine to the other
    bandwidth  bytes a second, in each direction
    """

    def __init__(self, folder, latency=0.0, bandwidth=1e12):
        self.agent = folder / "agent"
        if not os.access("/dev/net/tun", os.W_OK):
            raise Skipped("there is no /dev/net/tun")
        with contextlib.ExitStack() as undo:
            self.second = subprocess.Popen([*DIES_WITH_PARENT, "unshare", "-n", "-u", "sleep",
                                            "infinity"])
            undo.callback(self.end_process, self.second)
            while namespace_of(self.second.pid) == namespace_of("self"):
                time.sleep(0.01)
            tuns = [open_tun(name) for name in DEVICES]
            self.relay = subprocess.Popen(
                [*DIES_WITH_PARENT, sys.executable, "-B", __file__,
                 *map(str, (*tuns, latency, bandwidth))],
                pass_fds=tuns)
            undo.callback(self.end_process, self.relay)
            for descriptor in tuns:
                os.close(descriptor)
            command("ip", "link", "set", DEVICES[1], "netns", str(self.second.pid))
            for inside, device, address in zip(((), self.inside()), DEVICES, ADDRESSES):
                command(*inside, "hostname", device)
                command(*inside, "ip", "link", "set", "lo", "up")
                command(*inside, "ip", "address", "add", f"{address}/24", "dev", device)
                command(*inside, "ip", "link", "set", device, "mtu", str(MTU), "up")
                command(*inside, "sysctl", "-q", f"net.ipv4.tcp_retries2={RETRIES}")
            self.agent.write_text(  # mpirun calls it as ssh: HOST COMMAND
                f"#!/bin/sh\nshift\nexec {' '.join(self.inside())} sh -c \"$*\"\n")
            self.agent.chmod(0o755)
            self.undo = undo.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo.close()

    @staticmethod
    def end_process(process):
        process.kill()
        process.wait()

    def inside(self):
        """What a command on the second machine begins with."""
        return "nsenter", "-t", str(self.second.pid), "-n", "-u"

    def mpirun(self, processes):
        """The command that starts a program on both machines, in turn."""
        slots = -(-processes // 2)
        parameters = {"plm_rsh_agent": self.agent, "btl": "self,vader,tcp", **KEEPALIVE}
        return ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "node",
                "--host", ",".join(f"{address}:{slots}" for address in ADDRESSES),
                *(word for item in parameters.items() for word in ("--mca", *map(str, item))),
                "-x", "TAPESTRY_PEER_TIMEOUT", "-n", str(processes)]

    def cut(self):
        command("ip", "link", "set", DEVICES[0], "down")

    def mend(self):
        command("ip", "link", "set", DEVICES[0], "up")


class Direction:
    """Packets from one TUN device to the other."""

    def __init__(self, source, target, latency, bandwidth):
        self.source, self.target = source, target
        self.latency, self.bandwidth = latency, bandwidth
        self.packets = deque()  # (when it arrives, packet), in this order
        self.free = 0.0  # when the network has sent all of them

    def receive(self, now):
        """Takes the packets that the source sends."""
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self.source, MTU + 64)
                begin = max(now, self.free)
                if (begin - now) * self.bandwidth > QUEUE:
                    continue
                self.free = begin + len(packet) / self.bandwidth
                self.packets.append((self.free + self.latency, packet))

    def deliver(self, now):
        """Gives the target those that have arrived. Returns when the next one will."""
        while self.packets and self.packets[0][0] <= now:
            with contextlib.suppress(OSError):  # the device is down
                os.write(self.target, self.packets.popleft()[1])
        return self.packets[0][0] if self.packets else now + 1.0


def pass_on(first, second, latency, bandwidth):
    """Connects two TUN devices until the process is killed."""
    with contextlib.suppress(PermissionError):  # else other programs delay packets
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    directions = [Direction(first, second, latency, bandwidth),
                  Direction(second, first, latency, bandwidth)]
    now = time.monotonic()
    while True:
        next_arrival = min(direction.deliver(now) for direction in directions)
        select.select([first, second], [], [], max(next_arrival - time.monotonic(), 0.0))
        now = time.monotonic()
        for direction in directions:
            direction.receive(now)


if __name__ == "__main__":
    pass_on(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))

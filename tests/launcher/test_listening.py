"""Checks the sockets of worlds of every tier and of a user's program: another host reaches none that it should not.

usage: test_listening.py LOCKSTEP_TOYS LOCKSTEP LAUNCHED [TEST ...]
"""

import os
import socket
import struct
import sys
import unittest

from campaign_case import Campaign, marked
from launched_case import free_port

LAUNCHED = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else None


def address_of(text):
    """Reads an address of the kernel's tables: words of an address in the machine's order, and the port."""
    words, port = text.split(":")
    packed = b"".join(struct.pack("=I", int(words[at:at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed), int(port, 16)


def listening_sockets():
    """The addresses of all listening TCP sockets of this host, by inode."""
    found = {}
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + table, encoding="ascii") as file:
                lines = [line.split() for line in file][1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        found.update((line[9], address_of(line[1])) for line in lines if line[3] == "0A")
    return found


def listens(process):
    """The addresses at which one process listens."""
    sockets = listening_sockets()
    found = set()
    folder = "/proc/%d/fd" % process
    for name in os.listdir(folder):
        try:
            target = os.readlink(os.path.join(folder, name))
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(sockets.get(target[len("socket:["):-1]))
    return found - {None}


def knows_localhost():
    """A bare root without /etc/hosts does not."""
    try:
        return bool(socket.getaddrinfo("localhost", None))
    except OSError:
        return False


def address_on_the_network():
    """An address of this host that others can reach, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))  # sends nothing
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith("127.") else address


class Listening(Campaign):
    def all_of(self):
        """The addresses at which the processes of this test listen."""
        found = set()
        for process in marked(self.mark):
            try:
                found |= listens(process)
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
        return found

    def waits_with(self, world, count):
        """The addresses once that many sockets listen."""
        self.wait_until(lambda: len(self.all_of()) >= count, world)
        return self.all_of()

    def trains(self, size, address, **variables):
        """The port at which a user's program has met, and what listens while it makes steps."""
        port = free_port()
        world = [self.start([LAUNCHED, "train"], {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address,
                                                  "MASTER_PORT": str(port), **variables}) for rank in range(size)]
        for process in world:
            self.assertRegex(process.stdout.readline(), r"^rank \d trains$")
        found = self.all_of()
        for process in world:
            self.end(process)
        return port, found

    def test_a_program_on_loopback(self):
        port, found = self.trains(2, "127.0.0.1")
        self.assertIn(("127.0.0.1", port), found)
        self.assertEqual({address for address, _ in found}, {"127.0.0.1"})

    @unittest.skipUnless(knows_localhost(), "this host does not know localhost: it lacks its line in /etc/hosts")
    def test_a_program_that_meets_at_a_name_of_loopback(self):
        port, found = self.trains(2, "localhost")
        self.assertIn(port, {port for _, port in found})
        self.assertLessEqual({address for address, _ in found}, {"127.0.0.1", "::1"})

    def test_a_program_on_the_network_is_where_its_ranks_meet_and_nowhere_else(self):
        own = address_on_the_network()
        if own is None:
            self.skipTest("this host has no address but loopback")
        port, found = self.trains(2, own)
        self.assertIn((own, port), found)
        self.assertLessEqual({address for address, _ in found}, {own, "127.0.0.1"})

    def run_in_a_case(self, tier):
        """A run whose ranks are connected and wait for release()."""
        self.environment["TOYS_GROUP"] = "1"
        pipe = os.path.join(self.out, "pipe")
        os.mkfifo(pipe)
        return self.start(self.run_of("toys.wait", "--timeout", "60", "--world", "2", "--cases", "1", tier=tier),
                          {"TOYS_PIPE": pipe})

    def test_a_launched_campaign(self):
        self.environment["TOYS_GROUP"] = "1"
        world = self.waiting_world(2, "--cases", "1")
        # The store of the rendezvous, the case's, and Gloo of each rank.
        found = self.waits_with(world, 4)
        self.assertIn(("127.0.0.1", int(self.world["MASTER_PORT"])), found)
        self.assertEqual({address for address, _ in found}, {"127.0.0.1"})
        self.release()
        self.all_ended(world)

    def assert_forked_ranks_are_on_loopback(self, tier):
        run = self.run_in_a_case(tier)
        self.assertEqual({address for address, _ in self.waits_with([run], 2)}, {"127.0.0.1"})
        self.release()
        self.ended(run)

    def test_a_cold_world(self):
        self.assert_forked_ranks_are_on_loopback("cold")

    def test_a_warm_world(self):
        self.assert_forked_ranks_are_on_loopback("warm")

    def test_a_simulated_world_listens_nowhere(self):
        run = self.run_in_a_case("sim")
        self.wait_for_waiting_ranks(1, [run])
        self.assertEqual(self.all_of(), set())
        self.release()
        self.ended(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Two hosts, as two network namespaces with a cable between them: a world over both, and a cable that is cut.

usage: test_hosts.py PROGRAM [TEST ...]
"""

import os
import queue
import shutil
import subprocess
import threading
import unittest

from launched_case import DEADLINE_S, PROGRAM, Launched, ranks

TIMEOUT_MS = 6000
ADDRESSES = ("10.231.7.1", "10.231.7.2")
HOSTS = range(2)


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class TwoHosts(Launched):
    def setUp(self):
        super().setUp()
        if os.getuid() != 0:
            self.skipTest("only root makes network namespaces")
        if not shutil.which("ip"):
            self.skipTest("ip is not installed: apt-get install iproute2")
        self.names = ["lockstep-%d-%d" % (os.getpid(), host) for host in HOSTS]
        for name in self.names:
            self.addCleanup(ip, "netns", "delete", name)  # the cable goes with its ends
            made = ip("netns", "add", name)
            if made.returncode != 0:
                self.skipTest("this system makes no network namespaces: " + made.stderr.strip())
        self.ip_all("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns",
                    self.names[1])
        for name, address in zip(self.names, ADDRESSES):
            self.ip_all("-n", name, "address", "add", address + "/24", "dev", "cable")
            for device in ("cable", "lo"):
                self.ip_all("-n", name, "link", "set", device, "up")

    def ip_all(self, *arguments):
        done = ip(*arguments)
        if done.returncode != 0:
            self.skipTest("ip %s: %s" % (" ".join(arguments), done.stderr.strip()))

    def world(self, *what, **variables):
        """Two ranks on each host, as a launcher would start them."""
        return [self.start(["ip", "netns", "exec", self.names[rank // 2], PROGRAM, *what],
                           {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2",
                            "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500", **variables})
                for rank in range(4)]

    def test_a_world_over_both_listens_on_the_cable_without_being_told(self):
        for rank, process in enumerate(self.world()):
            self.assert_says(self.ended(process), ranks((rank, 4, rank % 2)))

    def test_an_interface_may_be_named_as_for_pytorch(self):
        for rank, process in enumerate(self.world(GLOO_SOCKET_IFNAME="cable")):
            self.assert_says(self.ended(process), ranks((rank, 4, rank % 2)))

    def test_a_host_that_the_others_cannot_reach_ends_the_meeting(self):
        self.ip_all("-n", self.names[1], "link", "set", "cable", "down")
        world = self.world("sum", str(TIMEOUT_MS))
        for rank, process in enumerate(world):
            said = self.ended(process)
            self.assertEqual((said.status, said.lines), (1, []), str(said))
            reason = "these ranks did not come: 2, 3 (these did: 0, 1)" if rank < 2 else "to which this host has no way"
            self.assertIn(reason, said.err)

    def test_a_cable_that_is_cut_in_training_ends_every_rank_and_it_says_what_it_waited_for(self):
        world = self.world("train", str(TIMEOUT_MS))
        trains = queue.Queue()
        for process in world:
            threading.Thread(target=lambda out=process.stdout: trains.put(out.readline()), daemon=True).start()
        self.assertEqual(sorted(trains.get(timeout=DEADLINE_S) for _ in world),
                         ["rank %d trains\n" % rank for rank in range(4)])
        self.ip_all("-n", self.names[0], "link", "set", "cable", "down")
        for rank, process in enumerate(world):
            said = self.ended(process)
            self.assertEqual(said.status, 1, str(said))
            sentence = said.err.splitlines()[-1]
            self.assertRegex(sentence, r"^rank %d: all-reduce of gradient bucket 0 \(.*\) failed after \d+ ms: " % rank)


if __name__ == "__main__":
    unittest.main(verbosity=2)

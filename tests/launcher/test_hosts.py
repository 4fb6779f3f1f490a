"""Two hosts, as two network namespaces with a cable between them: a world over both, and a cable that is cut.

usage: test_hosts.py PROGRAM [TEST ...]
"""

import queue
import threading
import unittest

from launched_case import PROGRAM, Launched, ranks
from processes import DEADLINE_S
from two_hosts import ADDRESSES, TwoHosts

TIMEOUT_MS = 6000


class Worlds(TwoHosts, Launched):
    def setUp(self):
        super().setUp()
        self.make_hosts()

    def world(self, *what, **variables):
        """Two ranks on each host, as a launcher would start them."""
        return [self.start(self.on_host(rank // 2, [PROGRAM, *what]),
                           {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2",
                            "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500", **variables})
                for rank in range(4)]

    def test_a_world_over_both_listens_on_the_cable_by_default(self):
        for rank, process in enumerate(self.world()):
            self.assert_says(self.ended(process), ranks((rank, 4, rank % 2)))

    def test_an_interface_may_be_named_as_for_pytorch(self):
        for rank, process in enumerate(self.world(GLOO_SOCKET_IFNAME="cable")):
            self.assert_says(self.ended(process), ranks((rank, 4, rank % 2)))

    def test_a_host_that_the_others_cannot_reach_ends_the_meeting(self):
        self.cut_the_cable()
        world = self.world("sum", str(TIMEOUT_MS))
        for rank, process in enumerate(world):
            said = self.ended(process)
            self.assertEqual((said.status, said.lines), (1, []), str(said))
            reason = "these ranks did not come: 2, 3 (these did: 0, 1)" if rank < 2 else "to which this host has no way"
            self.assertIn(reason, said.err)

    def test_a_cable_that_is_cut_in_training_ends_every_rank_which_names_who_is_lost(self):
        world = self.world("train", str(TIMEOUT_MS))
        trains = queue.Queue()
        for process in world:
            threading.Thread(target=lambda out=process.stdout: trains.put(out.readline()), daemon=True).start()
        self.assertEqual(sorted(trains.get(timeout=DEADLINE_S) for _ in world),
                         ["rank %d trains\n" % rank for rank in range(4)])
        self.cut_the_cable()
        for rank, process in enumerate(world):
            said = self.ended(process)
            self.assertEqual(said.status, 1, str(said))
            sentence = said.err.splitlines()[-1]
            self.assertRegex(sentence, r"^rank %d: all-reduce of gradient bucket 0 \(.*\) failed after \d+ ms: " % rank)
            lost = (r"these ranks do not wait as this one does: 2, 3 \(slow" if rank < 2
                    else r"nor does the store of the group answer: the process that serves it, mostly rank 0's")
            self.assertRegex(sentence, lost)


if __name__ == "__main__":
    unittest.main(verbosity=2)

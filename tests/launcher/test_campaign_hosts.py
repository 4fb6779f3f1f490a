"""run --tier launched over two hosts, as network namespaces with a cable between them.

usage: test_campaign_hosts.py LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import os
import unittest

from campaign_case import LOCKSTEP, Campaign
from two_hosts import ADDRESSES, TwoHosts

HERE = 4  # ranks on each host


class Hosts(TwoHosts, Campaign):
    def setUp(self):
        super().setUp()
        self.make_hosts()

    def over_both(self, command, **variables):
        return [self.start(self.on_host(rank // HERE, command),
                           {"RANK": str(rank), "WORLD_SIZE": str(2 * HERE), "LOCAL_RANK": str(rank % HERE),
                            "LOCAL_WORLD_SIZE": str(HERE), "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500",
                            **variables})
                for rank in range(2 * HERE)]

    def test_ranks_of_a_case_meet_across_the_cable(self):
        said = self.all_ended(self.over_both(self.run_of("gradients.match", "buffers.follow", "--cases", "6",
                                                         program=LOCKSTEP)))
        self.assert_only_rank_zero_speaks(said, 0)
        self.assertIn("2 scenarios: 2 passed", said[0].out)
        self.assertEqual({result["world_max"] for result in self.results()}, {2 * HERE})

    def test_a_cable_that_is_cut_in_a_case_ends_all_in_time(self):
        pipe = os.path.join(self.out, "pipe")
        os.mkfifo(pipe)
        world = self.over_both(self.run_of("toys.wait", "--timeout", "60"), TOYS_PIPE=pipe)
        self.wait_until(lambda: all(self.grandchildren(process) for process in world), world)
        self.cut_the_cable()
        said = self.all_ended(world)
        self.assertEqual([one.status for one in said], [3] + [0] * (HERE - 1) + [3] * HERE, "\n".join(map(str, said)))
        self.assertRegex(said[0].out, r"rank [4-7] \(process \d+ on host [^)]+\) is gone")
        for one in said[HERE:]:
            self.assertIn("rank 0's process ended, or cannot be reached any more", one.err)

    def test_a_host_that_cannot_be_reached_ends_the_meeting(self):
        self.cut_the_cable()
        for rank, said in enumerate(self.all_ended(self.over_both(self.run_of("toys.hold", "--meet", "4")))):
            self.assertEqual((said.status, said.out), (2, ""), str(said))
            reason = "these ranks did not come: 4-7" if rank < HERE else "to which this host has no way"
            self.assertIn(reason, said.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)

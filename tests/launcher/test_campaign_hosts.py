"""run --tier launched over two hosts, as network namespaces with a cable between them.

usage: test_campaign_hosts.py LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import os
import re
import unittest

from campaign_case import LOCKSTEP, Campaign
from two_hosts import ADDRESSES, TwoHosts

HERE = 4  # ranks on each host


class Hosts(TwoHosts, Campaign):
    def setUp(self):
        super().setUp()
        self.make_hosts()

    def over_both(self, command, host_variables=({}, {}), **variables):
        return [self.start(self.on_host(rank // HERE, command),
                           {"RANK": str(rank), "WORLD_SIZE": str(2 * HERE), "LOCAL_RANK": str(rank % HERE),
                            "LOCAL_WORLD_SIZE": str(HERE), "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500",
                            **variables, **host_variables[rank // HERE]})
                for rank in range(2 * HERE)]

    def test_ranks_of_a_case_meet_across_the_cable(self):
        said = self.all_ended(self.over_both(self.run_of("gradients.match", "buffers.follow", "--cases", "6",
                                                         program=LOCKSTEP)))
        self.assert_only_rank_zero_speaks(said, 0)
        self.assertIn("2 scenarios: 2 passed", said[0].out)
        self.assertEqual({result["world_max"] for result in self.results()}, {2 * HERE})

    def devices(self, **variables):
        """By rank, of a case in a world over both hosts, and what rank 0 said."""
        told = self.folder()
        said = self.all_ended(self.over_both(self.run_of("toys.hold", "--cases", "1", "--backend", "accelerator"),
                                             TOYS_DEVICES=told, **variables))
        self.assert_only_rank_zero_speaks(said, 0)
        assigned = []
        for rank in range(2 * HERE):
            with open(os.path.join(told, "rank%d" % rank), encoding="ascii") as file:
                assigned.append(int(file.read().rsplit(":", 1)[1]))
        return assigned, said[0]

    def test_each_rank_has_a_device_of_its_host_by_its_local_rank(self):
        assigned, said = self.devices(LOCKSTEP_ACCELERATORS="4")
        self.assertEqual(assigned, [0, 1, 2, 3] * 2)
        self.assertNotIn("share", said.out)

    def test_without_a_local_rank_the_ranks_of_a_host_are_counted(self):
        assigned, _ = self.devices(LOCKSTEP_ACCELERATORS="4", LOCAL_RANK="", LOCAL_WORLD_SIZE="")
        self.assertEqual(assigned, [0, 1, 2, 3] * 2)

    def test_ranks_of_a_host_with_fewer_devices_share_them_and_the_report_says_so(self):
        assigned, said = self.devices(LOCKSTEP_ACCELERATORS="3")
        self.assertEqual(assigned, [0, 1, 2, 0] * 2)
        self.assertIn("worlds of 8 share 6 simulated devices: judged as ever, never timed\n", said.out)
        self.assertEqual({result["shares_devices"] for result in self.results()},
                         {"worlds of 8 share 6 simulated devices"})

    def test_hosts_with_other_numbers_of_devices_are_refused_with_one_sentence_on_all(self):
        command = self.run_of("toys.hold", "--backend", "accelerator")
        said = self.all_ended(self.over_both(command, host_variables=({"LOCKSTEP_ACCELERATORS": "4"},
                                                                      {"LOCKSTEP_ACCELERATORS": "2"})))
        (sentence,) = {re.sub(r"process \d+", "process N", one.err) for one in said}
        self.assertEqual({(one.status, one.out) for one in said}, {(2, "")})
        self.assertIn("the processes do not see as many devices of the backend accelerator as each other: rank 4 "
                      "(process N on host %s) sees 2, and rank 0 (process N on host %s) sees 4" % (
                          self.names[1], self.names[0]), sentence)

    def test_a_host_without_devices_is_refused_with_one_sentence_on_all(self):
        command = self.run_of("toys.hold", "--backend", "accelerator")
        said = self.all_ended(self.over_both(command, host_variables=({"LOCKSTEP_ACCELERATORS": "none"}, {})))
        (sentence,) = {re.sub(r"process \d+", "process N", one.err) for one in said}
        self.assertEqual({(one.status, one.out) for one in said}, {(2, "")})
        self.assertIn("sees 1, and rank 0 (process N on host %s) sees none (LOCKSTEP_ACCELERATORS is 'none', expected a "
                      "number from 1 to 16)" % self.names[0], sentence)

    def test_models_train_on_devices_over_both_hosts(self):
        said = self.all_ended(self.over_both(
            self.run_of("gradients.match", "sync_batch_norm.keeps", "--cases", "2", "--backend", "accelerator",
                        program=LOCKSTEP), LOCKSTEP_ACCELERATORS="4"))
        self.assert_only_rank_zero_speaks(said, 0)
        self.assertIn("2 scenarios: 2 passed", said[0].out)

    def test_a_cable_that_is_cut_in_a_case_ends_all_in_time(self):
        pipe = os.path.join(self.out, "pipe")
        os.mkfifo(pipe)
        world = self.over_both(self.run_of("toys.wait", "--timeout", "60"), TOYS_PIPE=pipe)
        self.wait_for_waiting_ranks(len(world), world)
        self.cut_the_cable()
        said = self.all_ended(world)
        self.assertEqual([one.status for one in said], [3] + [0] * (HERE - 1) + [3] * HERE, "\n".join(map(str, said)))
        self.assertRegex(said[0].out, r"rank [4-7] \(process \d+ on host [^)]+\) is gone")
        for one in said[HERE:]:
            self.assertIn("rank 0's process ended, or cannot be reached any more", one.err)

    def test_a_host_that_cannot_be_reached_ends_the_meeting(self):
        self.cut_the_cable()
        for rank, said in enumerate(self.all_ended(self.over_both(self.run_of("toys.hold", "--rendezvous-timeout", "4")))):
            self.assertEqual((said.status, said.out), (2, ""), str(said))
            reason = "these ranks did not come: 4-7" if rank < HERE else "to which this host has no way"
            self.assertIn(reason, said.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""run --tier launched: one campaign over processes that something else has started.

usage: test_campaign.py LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import json
import os
import re
import signal
import time
import unittest

from campaign_case import LOCKSTEP, Campaign
from launched_case import FULL_BOAT, PROGRAM, free_port
from one_machine_slurm import Slurm
from processes import DEADLINE_S, ROOT

TOYS_THAT_FAIL = ("toys.multiply", "toys.average", "toys.crash", "toys.exit", "toys.throw", "toys.hang",
                  "toys.record_nothing")


class ByHand(Campaign):
    def test_worlds_of_one_and_of_four_have_one_report(self):
        for size in (1, 4):
            with self.subTest(size):
                said = self.all_ended(self.by_hand(size, self.run_of("toys.hold", "toys.bare", "--cases", "4")))
                self.assert_only_rank_zero_speaks(said, 0)
                self.assertIn("3 scenarios: 3 passed", said[0].out)
                self.assertEqual({result[most] for result in self.results() for most in ("world_min", "world_max")},
                                 {size})

    def test_a_full_run_has_its_canary(self):
        said = self.all_ended(self.by_hand(2, self.run_of("--cases", "1", "--timeout", "2")))
        self.assertIn("canary failed as it must", said[0].out)

    def test_failures_are_reported_as_on_cold(self):
        """Verdict, diagnosis, the table of values, who waits for whom: all but the name of the tier."""
        flags = ("--timeout", "3", "--world", "2", "--no-shrink", *TOYS_THAT_FAIL)
        said = self.all_ended(self.by_hand(2, self.run_of(*flags)))
        cold = self.result_of(self.run_of(*flags, tier="cold", out="cold"))
        self.assert_only_rank_zero_speaks(said, 1)
        self.assertEqual(cold.status, 1)
        self.assertEqual(self.told(said[0].out), self.told(cold.out))

    def told(self, out):
        """Without times, places, and what pads a column."""
        for pattern, stable in ((r"\d+\.\d ?s\b", "TIME"), (r"\b(launched|cold)\b", "TIER"), (r"runs/[\w-]+", "RUN"),
                                (r"(?m)^.*(replay|read|logs|run:) .*\n", ""), (r"/(out|cold)/", "/OUT/"),
                                (r"(?m)^    \| .*\n", ""), (r" +", " ")):
            out = re.sub(pattern, stable, out)
        return out

    def test_a_failing_case_is_shrunk_among_those_launched(self):
        said = self.all_ended(self.by_hand(3, self.run_of("toys.average", "--shrink-time", "10")))
        self.assert_only_rank_zero_speaks(said, 1)
        self.assertRegex(said[0].out, r"smallest case \(.* tried on launched in ")
        self.assertIn("    world 2   # passes with 1", said[0].out)

    def test_a_planted_mistake_is_reported_as_on_cold(self):
        """Over Gloo: subject naive averages what it has, and knows nothing of unused parameters."""
        flags = ("unused.are_averaged", "--subject", "naive", "--cases", "4", "--timeout", "3", "--world", "3",
                 "--no-shrink")
        self.all_ended(self.by_hand(3, self.run_of(*flags, program=LOCKSTEP)))
        self.result_of(self.run_of(*flags, program=LOCKSTEP, tier="cold", out="cold"))
        launched, cold = self.results()[0], self.results("cold")[0]
        self.assertEqual(launched["result"], "hang")
        for key in ("result", "signature", "findings"):
            self.assertEqual(launched.get(key), cold.get(key))

    def test_injections_strike_and_survivors_receive_the_error(self):
        said = self.all_ended(self.by_hand(3, self.run_of("failures", "--cases", "10", program=LOCKSTEP)))
        self.assert_only_rank_zero_speaks(said, 0)

    def test_a_case_that_wants_more_ranks_is_refused_with_that_reason(self):
        said = self.all_ended(self.by_hand(2, self.run_of("toys.hold", "--world", "2,3")))
        self.assert_only_rank_zero_speaks(said, 0)
        self.assertIn("refused (a world of 3 wants more than the 2 processes launched)", said[0].out)

    def test_a_saved_case_is_run_again_in_a_launched_world(self):
        self.result_of(self.run_of("toys.multiply", "--world", "2", tier="cold"))
        failures = os.path.join(self.out, "out", "failures")
        (name,) = os.listdir(failures)
        said = self.all_ended(self.by_hand(2, [PROGRAM, "replay", os.path.join(failures, name), "--tier", "launched",
                                               "--out", os.path.join(self.out, "again")]))
        self.assert_only_rank_zero_speaks(said, 1)
        self.assertIn("the sum over the ranks, not the average", said[0].out)


class Refusing(Campaign):
    def test_a_process_that_nothing_has_launched_is_refused(self):
        said = self.result_of(self.run_of("toys.hold"))
        self.assertEqual((said.status, said.out), (2, ""))
        self.assertIn("--tier launched: nothing has launched this process beside others", said.err)

    def test_half_an_environment_is_named(self):
        said = self.result_of(self.run_of("toys.hold"), {"RANK": "0", "WORLD_SIZE": "2"})
        self.assertEqual(said.status, 2)
        self.assertIn("lacks MASTER_ADDR and MASTER_PORT", said.err)

    def test_other_tiers_are_not_run_beside_it(self):
        said = self.result_of(self.run_of("toys.hold", tier="cold,launched"))
        self.assertEqual(said.status, 2)
        self.assertIn("launched worlds are run alone", said.err)

    def test_a_world_that_does_not_fill_names_who_did_not_come(self):
        for said in self.all_ended(self.by_hand(3, self.run_of("toys.hold", "--rendezvous-timeout", "2"), ranks=(0, 2))):
            self.assertEqual((said.status, said.out), (2, ""), str(said))
            self.assertIn("these ranks did not come: 1 (these did: 0, 2)", said.err)

    def test_two_processes_of_one_rank_are_found(self):
        """All three hear of it, or the one that came when the two others had met and were at work."""
        pipe = os.path.join(self.out, "pipe")
        os.mkfifo(pipe)
        world = self.by_hand(2, self.run_of("toys.wait", "--rendezvous-timeout", "20"), ranks=(0, 1, 1), TOYS_PIPE=pipe)
        until = time.monotonic() + DEADLINE_S
        while all(process.poll() is None for process in world) and time.monotonic() < until:
            time.sleep(0.01)
        self.release()
        refused = [one for one in self.all_ended(world) if one.status != 0]
        self.assertTrue(refused)
        for one in refused:
            self.assertEqual(one.status, 2, str(one))
            self.assertIn("rank 1 has arrived here before", one.err)

    def test_another_program_among_them_is_found_on_every_rank(self):
        world = self.by_hand(3, [self.run_of("toys.hold"), self.run_of("toys.hold"),
                                 self.run_of("gradients", program=LOCKSTEP)])
        for said in self.all_ended(world):
            self.assertEqual((said.status, said.out), (2, ""), str(said))
            self.assertIn("the processes are not of one program: rank 2 has no subject 'other', which rank 0 has",
                          said.err)

    def test_an_interface_that_is_not_there_is_named(self):
        for said in self.all_ended(self.by_hand(2, self.run_of("toys.hold", "--rendezvous-timeout", "5"),
                                                GLOO_SOCKET_IFNAME="nope0")):
            self.assertEqual(said.status, 2)
            self.assertIn("no interface 'nope0'", said.err)

    def test_a_selection_that_is_empty_is_said_by_all_and_nobody_waits(self):
        for said in self.all_ended(self.by_hand(2, self.run_of("toys.nope"))):
            self.assertEqual(said.status, 4)
            self.assertIn("no scenario is named 'toys.nope'", said.err)


class Dying(Campaign):
    def test_what_rank_zero_cannot_do_is_said_by_all(self):
        said = self.all_ended(self.by_hand(2, self.run_of("toys.hold", "--junit", "/no/such/folder")))
        self.assertEqual([one.status for one in said], [2, 3])
        self.assertIn("/no/such/folder: cannot be written", said[0].err)
        self.assertIn("rank 1: rank 0 could not go on: /no/such/folder: cannot be written", said[1].err)

    def test_a_member_that_is_killed_ends_the_campaign_and_is_named(self):
        world = self.waiting_world(3)
        world[1].kill()
        said = self.all_ended(world)
        self.assertEqual([one.status for one in said], [3, -signal.SIGKILL, 0], "\n".join(map(str, said)))
        self.assertRegex(said[0].out, r"rank 1 \(process %d on host [^)]+\) is gone" % world[1].pid)

    def test_without_rank_zero_the_others_end_and_say_so(self):
        world = self.waiting_world(3)
        world[0].kill()
        for rank, said in list(enumerate(self.all_ended(world)))[1:]:
            self.assertEqual((said.status, said.out), (3, ""), str(said))
            self.assertIn("rank %d: rank 0's process ended, or cannot be reached any more" % rank, said.err)

    def test_a_rank_of_a_case_that_is_killed_is_that_ranks_crash(self):
        world = self.waiting_world(3, "--cases", "1")
        os.kill(self.waiting_rank(2), signal.SIGKILL)
        # Run again, it waits again; then nobody is killed, and what it waited for comes.
        self.wait_until(lambda: self.last_event() == ("case", 2), world)
        self.release()
        said = self.all_ended(world)
        self.assertIn("rank 2 was ended by SIGKILL", said[0].out)

    def last_event(self):
        with open(os.path.join(self.out, "out", "runs", "latest", "events.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
        return lines[-1]["event"], lines[-1].get("run")

    def test_an_interrupt_of_rank_zero_ends_all(self):
        world = self.waiting_world(2)
        world[0].send_signal(signal.SIGINT)
        said = self.all_ended(world)
        self.assert_only_rank_zero_speaks(said, 130)
        self.assertIn("the run was interrupted", said[0].out)

    def test_an_interrupt_of_any_ends_all(self):
        world = self.waiting_world(3)
        world[2].send_signal(signal.SIGTERM)
        self.assert_only_rank_zero_speaks(self.all_ended(world), 130)

    def test_an_interrupt_of_all_is_one_interrupt(self):
        world = self.waiting_world(3)
        for process in reversed(world):
            process.send_signal(signal.SIGINT)
        self.assert_only_rank_zero_speaks(self.all_ended(world), 130)


class Launchers(Campaign):
    """A failing scenario makes the job's exit code another than 0, and is reported once."""

    def assert_runs(self, launch, environment=None, status=1):
        said = self.result_of([*launch, *self.run_of("toys.bare", "--cases", "3")], environment)
        self.assertEqual(said.status, 0, str(said))
        self.assertEqual(said.out.count("1 scenario: 1 passed"), 1, str(said))
        said = self.result_of([*launch, *self.run_of("toys.multiply", out="failing")], environment)
        self.assertEqual(said.status, status, str(said))
        self.assertEqual(said.out.count("the sum over the ranks, not the average"), 1, str(said))
        return said

    def test_lockstep_launch(self):
        said = self.assert_runs([PROGRAM, "launch", "-n", "3", "--"])
        self.assertIn("lockstep: rank 0 failed first, with exit code 1: 1 of 1 scenarios failed", said.err)

    def test_torchrun(self):
        python = os.path.join(ROOT, ".venv-peer", "bin", "python")
        if not os.path.exists(python):
            self.skipTest("there is no .venv-peer: ./lockstep setup --peer makes it")
        said = self.assert_runs([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3",
                                  "--no-python"])
        summary = said.err[said.err.index("Failures:"):]
        self.assertIn("<NO_OTHER_FAILURES>", summary)
        self.assertIn("traceback : 1 of 1 scenarios failed", summary)

    def test_open_mpi(self):
        mpirun = self.tool("mpirun.openmpi", "apt-get install openmpi-bin")
        self.assert_runs([mpirun, *FULL_BOAT, "-np", "3"])

    def test_hydra(self):
        mpiexec = self.tool("mpiexec.hydra", "apt-get install mpich")
        self.assert_runs([mpiexec, "-n", "2", "-genv", "MASTER_PORT", str(free_port())])


class Srun(Launchers):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.stop)
        cls.why_not = cls.slurm.start()

    test_lockstep_launch = test_torchrun = test_open_mpi = test_hydra = None

    def test_srun(self):
        if self.why_not:
            self.skipTest(self.why_not)
        self.assert_runs(["srun", "-n3"], self.slurm.environment)


if __name__ == "__main__":
    unittest.main(verbosity=2)

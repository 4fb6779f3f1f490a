"""One program, unchanged: bare, by hand, and under torchrun, Open MPI, MPICH and Slurm.

usage: test_launched.py PROGRAM [TEST ...]
"""

import json
import os
import socket
import subprocess
import unittest

from launched_case import ENVIRONMENT, FULL_BOAT, PROGRAM, Launched, free_port, ranks
from one_machine_slurm import Slurm
from processes import ROOT


class ByHand(Launched):
    def test_bare_it_is_a_world_of_one(self):
        self.assert_says(self.result_of([PROGRAM]), ranks((0, 1, 0)))

    def test_two_processes_that_are_given_their_rank_are_a_world_of_two(self):
        port = str(free_port())
        world = [self.start([PROGRAM], {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                 for rank in "01"]
        for rank, process in enumerate(world):
            self.assert_says(self.ended(process), ranks((rank, 2, rank)))

    def test_half_an_environment_is_named_and_no_world_of_one(self):
        said = self.result_of([PROGRAM], {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"})
        self.assertEqual((said.status, said.lines), (1, []), str(said))
        self.assertIn("lacks RANK and MASTER_PORT", said.err)


class Ending(Launched):
    """Checks how a launcher and the peers see a rank's end."""

    def by_hand(self, size, *arguments, **variables):
        port = str(free_port())
        return [self.start([PROGRAM, *arguments], {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                                                   "MASTER_PORT": port, **variables}) for rank in range(size)]

    def test_the_programs_own_sentence_is_what_torchrun_reads(self):
        """Unwinding destroys the handle before main can say anything; what was said then gives way."""
        file = os.path.join(self.folder(), "error.json")
        said = self.ended(self.by_hand(1, "throw", TORCHELASTIC_ERROR_FILE=file)[0])
        self.assertEqual((said.status, said.err), (1, "batch 2 cannot be read\n"))
        with open(file, encoding="utf-8") as text:
            message = json.load(text)["message"]
        self.assertEqual((message["message"], message["extraInfo"]["py_callstack"]), ("batch 2 cannot be read",) * 2)
        self.assertEqual(os.listdir(os.path.dirname(file)), ["error.json"])

    def test_a_rank_that_ends_a_step_early_is_named_with_its_steps(self):
        """Rank 0 holds the store, which goes when it ends."""
        for early in (1, 0):
            with self.subTest(early):
                said = [self.ended(process) for process in self.by_hand(2, "leave", str(early))]
                self.assertEqual((said[early].status, said[early].err), (0, ""), str(said[early]))
                other = said[1 - early]
                self.assertEqual(other.status, 1, str(other))
                self.assertIn("rank %d ended after 3 synchronised backwards" % early, other.err)
                self.assertNotIn("left: it closed its connection", other.err)
                self.assertIn("join", other.err)

    def test_a_rank_that_has_no_handle_any_more_is_not_waited_for(self):
        world = self.by_hand(2, "stay", "1")
        said = self.ended(world[0])
        self.assertEqual(said.status, 1, str(said))
        self.assertIn("rank 1 ended after 3 synchronised backwards", said.err)
        self.assertNotIn("within the timeout", said.err)
        self.assertIsNone(world[1].poll())

    def test_ranks_that_end_alike_say_nothing(self):
        for arguments in (["leave", "-1"], ["again"]):
            for said in [self.ended(process) for process in self.by_hand(3, *arguments)]:
                self.assertEqual((said.status, said.err), (0, ""), str(said))


class Torchrun(Launched):
    def setUp(self):
        super().setUp()
        self.python = os.path.join(ROOT, ".venv-peer", "bin", "python")
        if not os.path.exists(self.python):
            self.skipTest("there is no .venv-peer: ./lockstep setup --peer makes it")

    def command(self, *options, program=()):
        return [self.python, "-m", "torch.distributed.run", *options, "--no-python", PROGRAM, *program]

    def test_on_one_machine(self):
        for options in (["--master-port", str(free_port())], ["--standalone"]):
            with self.subTest(options[0]):
                self.assert_says(self.result_of(self.command("--nproc-per-node=3", *options)),
                                 ranks((0, 3, 0), (1, 3, 1), (2, 3, 2)))

    def run_two_agents(self, options_of, program=(), environment=None):
        agents = [self.start(self.command("--nnodes=2", "--nproc-per-node=2", *options_of(number), program=program),
                             environment) for number in range(2)]
        return [self.ended(agent) for agent in agents]

    def assert_four_ranks(self, both):
        for said in both:
            self.assertEqual(said.status, 0, str(said))
        self.assertEqual(sorted(both[0].lines + both[1].lines),
                         ranks((0, 4, 0), (1, 4, 1), (2, 4, 0), (3, 4, 1)))

    def test_two_static_agents(self):
        port = str(free_port())
        self.assert_four_ranks(self.run_two_agents(
            lambda number: ["--node-rank=%d" % number, "--master-addr=127.0.0.1", "--master-port", port]))

    def rendezvous(self, *more):
        port = free_port()
        return lambda number: ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:%d" % port, "--rdzv-id=test",
                               "--local-addr=127.0.0.1", *more]

    def test_two_agents_that_find_each_other(self):
        self.assert_four_ranks(self.run_two_agents(self.rendezvous()))

    def test_a_rank_that_fails_the_first_time_is_restarted_with_its_world(self):
        said = self.result_of(self.command("--nproc-per-node=2", "--max-restarts=1", "--master-port", str(free_port()),
                                      program=["fail-once", os.path.join(self.folder(), "failed")]))
        self.assert_says(said, ranks((0, 2, 0), (1, 2, 1)))

    # Its agents share one store over attempts, and each counts its own: https://github.com/pytorch/pytorch/issues/135712
    def test_two_agents_restart_together_where_each_attempt_has_a_store_of_its_own(self):
        self.assert_four_ranks(self.run_two_agents(
            self.rendezvous("--max-restarts=1"), ["fail-once", os.path.join(self.folder(), "failed")],
            {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}))

    def test_its_summary_says_our_sentence(self):
        said = self.result_of(self.command("--nproc-per-node=2", "--master-port", str(free_port()), program=["interface"]))
        self.assertNotEqual(said.status, 0)
        summary = said.err[said.err.index("Root Cause"):]
        self.assertIn("traceback : rank 1 cannot take part: it cannot listen on the interface nope0", summary)

    def test_its_summary_says_which_variable_is_missing(self):
        said = self.result_of([self.python, "-m", "torch.distributed.run", "--master-port", str(free_port()), "--no-python",
                          "env", "-u", "WORLD_SIZE", PROGRAM])
        self.assertIn("traceback : the environment looks like that of torchrun", said.err)


class OpenMpi(Launched):
    def setUp(self):
        super().setUp()
        self.mpirun = self.tool("mpirun.openmpi", "apt-get install openmpi-bin")

    def test_on_one_machine_nothing_has_to_be_said(self):
        self.assert_says(self.result_of([self.mpirun, *FULL_BOAT, "-np", "3", PROGRAM]),
                         ranks((0, 3, 0), (1, 3, 1), (2, 3, 2)))

    def test_two_jobs_at_once_do_not_meet(self):
        # Open MPI's jobs share a folder, and one fails where both make it at once.
        above = self.folder()
        os.mkdir(os.path.join(above, "ompi.%s.%d" % (socket.gethostname().split(".")[0], os.getuid())))
        jobs = [self.start([self.mpirun, *FULL_BOAT, "--mca", "orte_tmpdir_base", above, "-np", "2", PROGRAM]) for _ in range(2)]
        for job in jobs:
            self.assert_says(self.ended(job), ranks((0, 2, 0), (1, 2, 1)))

    def test_a_place_to_meet_that_was_given_is_taken(self):
        said = self.result_of([self.mpirun, *FULL_BOAT, "-np", "2", "-x", "MASTER_ADDR=localhost", "-x",
                          "MASTER_PORT=%d" % free_port(), PROGRAM])
        self.assert_says(said, ranks((0, 2, 0), (1, 2, 1)))


class Hydra(Launched):
    def setUp(self):
        super().setUp()
        self.mpiexec = self.tool("mpiexec.hydra", "apt-get install mpich")

    def test_with_a_port_to_meet_at(self):
        said = self.result_of([self.mpiexec, "-n", "2", "-genv", "MASTER_PORT", str(free_port()), PROGRAM])
        self.assert_says(said, ranks((0, 2, 0), (1, 2, 1)))

    def test_without_one_every_rank_says_what_to_set(self):
        said = self.result_of([self.mpiexec, "-n", "2", PROGRAM])
        self.assertEqual((said.status != 0, said.lines), (True, []), str(said))
        self.assertIn("set the environment variable MASTER_PORT", said.err)


class Srun(Launched):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.stop)
        cls.why_not = cls.slurm.start()

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)

    def slurm_run(self, *command):
        return self.result_of(list(command), self.slurm.environment)

    def test_a_step_meets_by_itself(self):
        self.assert_says(self.slurm_run("srun", "-n3", PROGRAM), ranks((0, 3, 0), (1, 3, 1), (2, 3, 2)))

    def test_pmi2_changes_nothing(self):
        self.assert_says(self.slurm_run("srun", "--mpi=pmi2", "-n2", PROGRAM), ranks((0, 2, 0), (1, 2, 1)))

    def test_a_batch_script_stands_alone_and_its_step_does_not(self):
        out = os.path.join(self.folder(), "out")
        said = self.slurm_run("sbatch", "--wait", "-n2", "--output", out, "--wrap",
                               "'%s'; srun '%s'" % (PROGRAM, PROGRAM))
        with open(out, encoding="utf-8") as file:
            lines = sorted(file.read().splitlines())
        self.assertEqual(said.status, 0, "%s\n%s" % (said, lines))
        self.assertEqual(lines, sorted(ranks((0, 1, 0)) + ranks((0, 2, 0), (1, 2, 1))))


if __name__ == "__main__":
    unittest.main(verbosity=2)

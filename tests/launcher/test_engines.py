"""Engines that start ranks on several hosts, over two network namespaces: the lines of examples/two_nodes and docs/scale.

usage: test_engines.py PROGRAM LOCKSTEP [TEST ...], where PROGRAM is tests/launcher/launched
"""

import os
import queue
import re
import threading
import time
import unittest

from campaign_case import LOCKSTEP
from launched_case import ENVIRONMENT, FULL_BOAT, PROGRAM, Launched, ranks
from processes import DEADLINE_S, ROOT
from two_hosts import HOSTS, TwoHosts

TIMEOUT_MS = 6000
EACH = 2  # ranks on each host
WORLD = EACH * len(HOSTS)


class Engine(TwoHosts, Launched):
    """start_all() starts one program as the ranks of both hosts, and returns the engine's processes."""

    def setUp(self):
        super().setUp()
        self.out = self.folder()
        self.environment = {**ENVIRONMENT, "TMPDIR": self.out, "PYTHONUNBUFFERED": "1"}
        self.make_hosts()

    def end(self, process):
        """An agent on the other host may live on in a session of its own, and keeps the pipes."""
        for host in HOSTS:
            self.end_processes(host)
        super().end(process)

    def all_ended(self, *command, **variables):
        return [self.ended(process) for process in self.start_all(command, variables)]

    def campaign(self, *arguments):
        return [LOCKSTEP, "run", "--tier", "launched", "--seed", "7", "--out", os.path.join(self.out, "out"), *arguments]

    def lines_of(self, processes):
        """The lines that the processes print from now on, each as soon as it is there."""
        lines = queue.Queue()
        for process in processes:
            for stream in (process.stdout, process.stderr):
                threading.Thread(target=lambda stream=stream: [lines.put(line) for line in stream], daemon=True).start()
        return lines

    def wait_for(self, lines, patterns):
        """Until each of the patterns was found in a line."""
        until, seen = time.monotonic() + DEADLINE_S, ""
        while any(not re.search(pattern, seen) for pattern in patterns):
            try:
                seen += lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                self.fail("%s not found in\n%s" % (patterns, seen))

    def training(self):
        """Its lines, from when all ranks train."""
        lines = self.lines_of(self.start_all([PROGRAM, "train", str(TIMEOUT_MS)], {}))
        self.wait_for(lines, ["rank %d trains" % rank for rank in range(WORLD)])
        return lines

    def sentence_of(self, rank):
        lost = "these ranks do not wait as this one does: 2, 3" if rank < EACH else "nor does the store of the group answer"
        return r"rank %d: all-reduce of gradient bucket 0 \(.*\) failed after \d+ ms: .*%s" % (rank, lost)


class Tests:
    def test_the_ranks_of_both_hosts_are_one_world(self):
        said = self.all_ended(PROGRAM)
        self.assertEqual([one.status for one in said], [0] * len(said), "\n".join(map(str, said)))
        self.assertEqual(sorted(line for one in said for line in one.lines),
                         ranks(*((rank, WORLD, rank % EACH) for rank in range(WORLD))))

    def test_a_campaign_runs_over_both(self):
        said = self.all_ended(*self.campaign("gradients.match", "--cases", "4"))
        self.assertEqual([one.status for one in said], [0] * len(said), "\n".join(map(str, said)))
        self.assertEqual("".join(one.out for one in said).count("1 scenario: 1 passed"), 1)

    def judged(self, folder):
        said = self.result_of([LOCKSTEP, "judge", folder])
        self.assertEqual(said.status, 0, str(said))
        self.assertEqual(sorted(os.listdir(folder)), ["rank%d.history" % rank for rank in range(WORLD)])
        return said

    def test_a_recorded_run_over_both_is_judged(self):
        folder = os.path.join(self.out, "recorded")
        said = self.all_ended(PROGRAM, "record", LOCKSTEP_RECORD=folder)
        self.assertEqual([one.status for one in said], [0] * len(said), "\n".join(map(str, said)))
        self.assertRegex(self.judged(folder).out, r"PASS .*parameters\.are_the_same")

    def test_a_cable_that_is_cut_is_reported_by_the_ranks(self):
        lines = self.training()
        self.cut_the_cable()
        self.wait_for(lines, map(self.sentence_of, self.heard_after_the_cut))

    def test_a_host_that_is_switched_off_is_reported_by_the_ranks_of_the_other(self):
        lines = self.training()
        self.switch_off(1)
        self.wait_for(lines, map(self.sentence_of, range(EACH)))

    def test_a_host_that_is_switched_off_in_a_campaign_is_named(self):
        lines = self.lines_of(self.start_all(self.campaign("gradients.match", "--cases", "20"), {}))
        self.wait_for(lines, [r"lockstep \S+ · libtorch"])
        self.switch_off(1)
        lost = r"rank [23] \(process \d+ on host %s\) (is gone|does not answer)" % self.names[1]
        self.wait_for(lines, [lost.replace(" ", r"\s+")])  # mpirun gives its ranks a terminal


class Torchrun(Engine):
    def setUp(self):
        super().setUp()
        self.python = os.path.join(ROOT, ".venv-peer", "bin", "python")
        if not os.path.exists(self.python):
            self.skipTest("there is no .venv-peer: ./lockstep setup --peer makes it")

    heard_after_the_cut = range(WORLD)

    def start_all(self, command, variables):
        return [self.start(self.on_host(host, [self.python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node",
                                               str(EACH), *self.rendezvous(host), "--no-python", *command]), variables)
                for host in HOSTS]


class TorchrunStatic(Torchrun, Tests):
    # TorchrunC10d has the others: to a rank both are the same variables.
    test_a_campaign_runs_over_both = test_a_recorded_run_over_both_is_judged = None
    test_a_host_that_is_switched_off_is_reported_by_the_ranks_of_the_other = None
    test_a_host_that_is_switched_off_in_a_campaign_is_named = None

    def rendezvous(self, host):
        return ["--node-rank", str(host), "--master-addr", self.names[0], "--master-port", "29400"]


class TorchrunC10d(Torchrun, Tests):
    test_a_cable_that_is_cut_is_reported_by_the_ranks = None  # as TorchrunStatic's
    test_a_recorded_run_over_both_is_judged = None  # as the one in Python below

    def rendezvous(self, _):
        return ["--rdzv-backend", "c10d", "--rdzv-endpoint", self.names[0] + ":29400", "--rdzv-id", "job7"]

    def test_a_recorded_training_in_python_is_judged(self):
        folder = os.path.join(self.out, "recorded")
        train = os.path.join(ROOT, "tests", "judge", "train.py")
        said = self.all_ended(self.python, "-m", "lockstep_recorder", train, LOCKSTEP_RECORD=folder,
                              PYTHONPATH=os.path.join(ROOT, "recorder", "python"))
        self.assertEqual([one.status for one in said], [0] * len(said), "\n".join(map(str, said)))
        self.judged(folder)


class OpenMpi(Engine, Tests):
    def setUp(self):
        super().setUp()
        self.mpirun = self.tool("mpirun.openmpi", "apt-get install openmpi-bin")
        self.agent = os.path.join(self.out, "agent")  # in place of ssh
        with open(self.agent, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nname=$1; shift\nip netns exec $name unshare --uts sh -c "
                       "\"mount --bind '%s' /etc/hosts && hostname $name && $*\"\n"
                       "status=$?; test $status != 137 || exec sleep 1000  # ssh hears nothing of a host that is off\n"
                       "exit $status\n" % self.hosts_file)
        os.chmod(self.agent, 0o700)

    # mpirun prints what the ranks of the other host say, and does not hear them any more.
    heard_after_the_cut = range(EACH)

    def start_all(self, command, variables):
        hosts = ",".join("%s:%d" % (name, EACH) for name in self.names)
        passed = [word for name in ("MASTER_ADDR=" + self.names[0], *variables) for word in ("-x", name)]
        return [self.start(self.on_host(0, [self.mpirun, *FULL_BOAT, "--mca", "plm_rsh_agent", self.agent, "--host", hosts,
                                            *passed, *command]), variables)]


if __name__ == "__main__":
    unittest.main(verbosity=2)

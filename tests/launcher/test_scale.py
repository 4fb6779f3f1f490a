"""The files of docs/scale for launched worlds, with the toys for a program: what can be run of them here.

usage: test_scale.py LOCKSTEP_TOYS LOCKSTEP [TEST ...]
"""

import os
import shutil
import unittest

from campaign_case import Campaign
from launched_case import FULL_BOAT, PROGRAM, free_port
from one_machine_slurm import Slurm
from processes import ROOT


class Files(Campaign):
    """Each starts ./lockstep in its folder, which is the toys' program here."""

    def setUp(self):
        super().setUp()
        os.symlink(PROGRAM, os.path.join(self.out, "lockstep"))
        self.environment["TOYS_CANARY_PASSES"] = "1"  # then there are few toys

    def file(self, name):
        return os.path.join(ROOT, "docs", "scale", name)

    def assert_ran(self, said, results="results"):
        """The canary of these toys passes, so that the exit code of a whole run is not 0."""
        self.assertEqual(said.status, 1, str(said))
        self.assertIn("canary passed", said.out)
        self.assertIn("1 scenario: 1 passed", said.out)
        self.assertTrue(os.path.exists(os.path.join(self.out, results, "runs", "latest", "run.json")))

    def test_mpirun(self):
        self.tool("mpirun.openmpi", "apt-get install openmpi-bin")
        said = self.result_of(["bash", self.file("mpirun.sh")], {
            "HOSTS": "localhost:2", "MPIRUN_FLAGS": " ".join(FULL_BOAT), "MASTER_PORT": str(free_port())}, cwd=self.out)
        self.assert_ran(said)
        said = self.result_of(["bash", self.file("mpirun.sh")], cwd=self.out)
        self.assertIn("HOSTS: which hosts", said.err)

    def test_slurm(self):
        slurm = Slurm()
        self.addCleanup(slurm.stop)
        why_not = slurm.start()
        if why_not:
            self.skipTest(why_not)
        script = os.path.join(self.out, "slurm_launched.sh")
        shutil.copy(self.file("slurm_launched.sh"), script)
        log = os.path.join(self.out, "log")
        said = self.result_of(["sbatch", "--wait", "--nodes=1", "--ntasks-per-node=2", "--output", log, script],
                         slurm.environment, cwd=self.out)
        with open(log, encoding="utf-8") as file:
            said.out = file.read()
        self.assert_ran(said)

    def test_pytorchjob(self):
        """As Kubeflow's operator sets its variables: the master is rank 0, workers come behind it."""
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed: apt-get install python3-yaml")
        with open(self.file("pytorchjob.yaml"), encoding="utf-8") as file:
            job = yaml.safe_load(file)
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v1", "PyTorchJob"))
        specs = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual((list(specs), specs["Master"]["replicas"]), (["Master", "Worker"], 1))
        commands = []
        for spec in specs.values():
            (container,) = spec["template"]["spec"]["containers"]
            self.assertEqual((container["name"], spec["restartPolicy"]), ("pytorch", "Never"))
            commands += [container["command"]] * spec["replicas"]
        results = os.path.join(self.out, "results")
        port = str(free_port())
        world = [self.start([results if word == "/results" else word for word in command],
                            {"RANK": str(rank), "WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1",
                             "MASTER_PORT": port, "PYTHONUNBUFFERED": "1"}, cwd=self.out)
                 for rank, command in enumerate(commands)]
        said = self.all_ended(world)
        self.assert_only_rank_zero_speaks(said, 1)
        self.assert_ran(said[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)

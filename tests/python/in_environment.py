#!/usr/bin/env python3
"""The package `lockstep`, installed in an environment of its own, outside of the tree.

usage: in_environment.py PYTHON [TEST ...]     PYTHON is that environment's, which has the package and PyTorch
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

TRAINING = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))).sum().backward()
    if WRONG and dist.get_rank() == 1:
        model.module.weight.grad.mul_(2)
    optimizer.step()
dist.destroy_process_group()
"""

OWN_CLASS = """
import torch
import torch.distributed as dist

class Averaging(torch.nn.Module):
    def __init__(self, module, group):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        return self.module(*inputs)

def wrap(module, process_group, options):
    return Averaging(module, process_group)
"""


LAUNCHED = """
import os, time
import lockstep, pytest, torch, torch.distributed as dist

@pytest.fixture
def folder():
    os.environ["OF_FIXTURE"] = "1"
    return dist.is_initialized()

@lockstep.world(2, 3)
def test_right(rank, world_size, folder):
    dist.all_reduce(total := torch.tensor([float(rank)]))
    assert total.item() == 1 and int(os.environ["RANK"]) == rank and world_size == 2
    assert [each.kind for each in lockstep.collectives()] == ["allreduce"]

@lockstep.world(2)
def test_fails_on_one(rank):
    if rank == 1: assert {"rank": rank} == {"rank": 0}
    dist.barrier()

@lockstep.world(2)
def test_disagrees(rank):
    if rank: pytest.skip("not here")

@lockstep.world(2)
def test_has_a_group_again(rank): dist.barrier()

def test_of_no_world(): assert "RANK" in os.environ
"""

HANGS = """

@lockstep.world(2)
def test_hangs(rank):
    if rank == 0: dist.barrier()
    else: time.sleep(1000)

@lockstep.world(2)
def test_never(rank): pass
"""


class Package(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep package ")  # A space, since some have one.
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_there(self, *command, **more):
        """Exit status, stdout and stderr, in a folder that is not the tree's and with an environment that names none of it."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("LOCKSTEP", "PYTHON", "LD_"))}
        result = subprocess.run(command, cwd=self.folder, env={**environment, "OMP_NUM_THREADS": "1", **more}, capture_output=True,
                                text=True, timeout=600, check=False)
        return result.returncode, result.stdout, result.stderr

    def lockstep(self, *arguments):
        return self.run_there(PROGRAM, *arguments)

    def test_a_run_judges_pytorch_of_this_environment(self):
        status, said, errors = self.lockstep("run", "sampler", "--subject", "pytorch", "--json", "run.json")
        self.assertEqual(status, 0, said + errors)
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            self.assertIn("pytorch", json.dumps(json.load(file)))

    def test_each_finding_holds_of_pytorch_of_this_environment(self):
        cases = sorted(glob.glob(os.path.join(ROOT, "docs", "findings", "*.json")))
        self.assertGreater(len(cases), 10)
        for case in cases:
            with self.subTest(case=os.path.basename(case)):
                status, said, errors = self.lockstep("replay", case, "--subject", "pytorch", "--tier", "sim")
                self.assertEqual(status, 1, said + errors)

    def test_pytorch_may_lie_in_another_folder_than_the_package(self):
        found = self.run_there(PYTHON, "-c", "import lockstep, os; print(os.path.dirname(lockstep.__file__))")[1].strip()
        elsewhere = os.path.join(self.folder, "elsewhere")
        shutil.copytree(found, os.path.join(elsewhere, "lockstep"))
        program = self.write("lockstep.py", "import sys; sys.path[0] = sys.argv.pop(1); import lockstep._start; lockstep._start.main()")

        def start(*arguments, **more):
            return self.run_there(PYTHON, program, elsewhere, *arguments, **more)
        status, said, errors = start("run", "sampler.partitions_the_dataset", "--cases", "3")
        self.assertEqual(status, 0, said + errors)
        status, said, errors = start("launch", "-n", "1", "--", "env", LD_LIBRARY_PATH="/mine")
        self.assertEqual(status, 0, said + errors)
        self.assertEqual([line for line in said.splitlines() if " LD_" in line or "LOCKSTEP_HOST" in line], ["[0] LD_LIBRARY_PATH=/mine"])

    def test_a_group_after_a_local_one_is_made_but_in_one_release(self):
        program = os.path.join(ROOT, "docs", "findings", "group_after_a_local_one.py")
        for right in [], ["right"]:
            _, said, errors = self.lockstep("launch", "-n", "2", "--", PYTHON, program, *right)
            self.assertEqual(said.count(": made "), 0 if "PyTorch 2.15" in self.release() and not right else 2, said + errors)

    def release(self):
        return self.run_there(PYTHON, "-c", "import torch; print('PyTorch', torch.__version__)")[1]

    def test_a_run_of_the_cold_tier_starts_ranks(self):
        status, said, errors = self.lockstep("run", "sampler.follows_its_program", "--tier", "cold", "--cases", "3")
        self.assertEqual(status, 0, said + errors)

    def test_a_recorded_training_is_judged(self):
        two_ranks = [PROGRAM, "launch", "-n", "2"]  # torchrun looks up this machine's name, which not every one has.
        for name, wrong, start, command, more in (
                ("right", False, "", [*two_ranks, "--record", "right", "--"], {}),
                ("wrong", True, "", [PROGRAM, "record", "--out", "wrong", "--", *two_ranks, "--"], {}),
                ("it starts", True, "import lockstep\nlockstep.start()\n", [*two_ranks, "--"], {"LOCKSTEP_RECORD": "it starts"})):
            with self.subTest(record=name):
                program = self.write("train.py", start + TRAINING.replace("WRONG", str(wrong)))
                status, said, errors = self.run_there(*command, PYTHON, program, **more)
                self.assertEqual(status, 0, said + errors)
                self.assertEqual(sorted(os.listdir(os.path.join(self.folder, name))), ["rank0.history", "rank1.history"])
                status, said, errors = self.lockstep("judge", name)
                self.assertEqual(status, int(wrong), said + errors)

    def test_unchanged_programs_of_torchrun_are_recorded(self):
        torchrun = [PYTHON, "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1",
                    "--nproc-per-node", "2"]
        program = self.write("train.py", "import sys; assert sys.argv[1:] == ['--out', 'mine'] and __name__ == '__main__'\n" + TRAINING.replace("WRONG", "False"))
        for folder, ranks, command in (("recorded", 2, [*torchrun, "-m", "lockstep.record", program]),
                                       ("other", 1, [PROGRAM, "launch", "-n", "1", "--", PYTHON, "-m", "lockstep.record", "--out", "other", program]),
                                       ("by lockstep", 2, [PROGRAM, "record", "--out", "by lockstep", "--", *torchrun, program])):
            with self.subTest(folder=folder):
                status, said, errors = self.run_there(*command, "--out", "mine")
                self.assertEqual(status, 0, said + errors)
                self.assertEqual(sorted(os.listdir(os.path.join(self.folder, folder))), [f"rank{rank}.history" for rank in range(ranks)])
                status, said, errors = self.lockstep("judge", folder)
                self.assertEqual(status, 0, said + errors)
        for arguments, sentence in (([], "usage: python -m lockstep.record"), (["--out"], "usage: python -m lockstep.record"), (["gone.py"], "there is no program gone.py"),
                                    ([program], "rank0.history: is there already; record into a new folder")):
            status, said, errors = self.run_there(PYTHON, "-m", "lockstep.record", *arguments, RANK="0", WORLD_SIZE="1")
            self.assertEqual(status, 1, said + errors)
            self.assertIn(sentence, errors)
            self.assertNotIn("Traceback", errors)

    def test_launched_ranks_run_pytest_themselves(self):
        def ran(text, *options, ranks=("launch", "-n", "2", "--")):
            self.write("test_it.py", text)
            tests = [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "--lockstep-tier", "launched", *options]
            status, said, errors = self.run_there(*([PROGRAM, *ranks] if ranks else []), *tests)
            return status, said + errors
        status, said = ran(LAUNCHED, "-rs")
        self.assertEqual(status, 1, said)
        for text in ("2 failed, 3 passed, 1 skipped", "SKIPPED [1] test_it.py:", ": the launched world has 2 ranks", "rank 1: failed: AssertionError: assert {'rank': 1} == {'rank': 0}",
                     "the ranks disagree on whether this test is skipped", "rank 1: skipped: not here"):
            self.assertIn(text, said)
        self.assertEqual(said.count("test session starts"), 1)
        status, said = ran(LAUNCHED + HANGS, "--lockstep-timeout", "5")
        self.assertEqual(status, 1, said)
        for text in ("FAILED test_it.py::test_fails_on_one[world2]", "FAILED test_it.py::test_hangs[world2]", "ranks 0, 1 of 2 did not end within 5 s",
                     "rank 0: waits in barrier, number 1 of the world at test_it.py", "to which rank 1 did not come", "in test_hangs"):
            self.assertIn(text, said)
        self.assertNotIn("test_never", said)
        self.assertEqual(ran(LAUNCHED, "-k", "right or again")[0], 0)
        for options, ranks, sentence in (([], (), "needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: have a launcher start pytest"),
                                         (["-n", "2"], ("launch", "-n", "1", "--"), "does not go with --numprocesses"),
                                         (["--lockstep-record"], ("launch", "-n", "1", "--"), "record the whole run, by `lockstep record`")):
            status, said = ran(LAUNCHED, *options, ranks=ranks)
            self.assertNotEqual(status, 0)
            self.assertIn(sentence, said)

    def test_what_it_starts_has_the_environment_that_it_was_called_with(self):
        print_it = [PYTHON, "-c", "import json, os; print(json.dumps(sorted(name for name in os.environ "
                    "if name.startswith(('LD_', 'LOCKSTEP', 'PYTHON')))))"]
        for command, there in (["record", "--"], ["LOCKSTEP_RECORD", "PYTHONPATH"]), (["launch", "-n", "1", "--"], []):
            status, said, errors = self.lockstep(*command, *print_it)
            self.assertEqual(status, 0, said + errors)
            self.assertEqual([name for name in json.loads(said.partition("] ")[2] or said) if name != "LOCKSTEP_SECRET"], there)  # launch's

    def test_judge_starts_without_python_and_libtorch(self):
        status, said, errors = self.run_there(PROGRAM, "judge", "nothing", LD_DEBUG="files", LD_DEBUG_OUTPUT=os.path.join(self.folder, "loaded"))
        self.assertEqual(status, 2, said + errors)
        last = [name for name in os.listdir(self.folder) if name.startswith("loaded")]
        self.assertEqual(len(last), 1)
        with open(os.path.join(self.folder, last[0]), encoding="utf-8") as file:
            self.assertNotIn("libtorch", file.read())

    def test_commands_that_it_prints_can_be_typed(self):
        status, said, errors = self.lockstep("run", "gradients.match_single_process", "--subject", "python:" + self.write("own.py", OWN_CLASS),
                                             "--cases", "20")
        self.assertEqual(status, 1, said + errors)
        command = next(line.split(None, 1)[1] for line in said.splitlines() if line.split()[:1] == ["replay"])
        status, said, errors = self.run_there("bash", "-c", command)
        self.assertEqual(status, 1, command + "\n" + said + errors)


if __name__ == "__main__":
    PYTHON = os.path.abspath(sys.argv.pop(1))
    PROGRAM = os.path.join(os.path.dirname(PYTHON), "lockstep")
    unittest.main()

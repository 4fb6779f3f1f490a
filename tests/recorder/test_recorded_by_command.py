"""`lockstep record`: programs that are not changed by a line, and what they start.

usage: test_recorded_by_command.py LOCKSTEP
"""

import os
import subprocess
import tempfile
import unittest

import test_started
from test_started import peer

TORCHRUN = [peer.PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RANKS = ["rank0.history", "rank1.history"]
TRAINING = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    data = torch.arange(64, dtype=torch.float32).reshape(16, 4)
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data), **LOADER)
    for batch in loader:
        optimizer.zero_grad()
        ddp(batch).sum().backward()
        if WRONG and dist.get_rank() == 1:
            ddp.module.weight.grad.zero_()
        optimizer.step()
    print("rank", dist.get_rank(), "%.6f" % ddp.module.bias.item(), sys.argv[1:], __file__)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
    sys.exit(STATUS)
"""
SPAWNED_WITH_VARIABLES = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.utils.data import DataLoader

def train(rank, store):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    print("rank", rank, "%g" % sum(batch.sum().item() for batch in DataLoader(torch.arange(8.0), batch_size=4, num_workers=1)))
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(train, (sys.argv[1],), 2)
"""
FRESH_WORKERS = {"num_workers": 2, "multiprocessing_context": "spawn"}


class Recorded(unittest.TestCase):
    lockstep = ""  # the program

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep recorded ")
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "out")

    def write(self, name, text, **values):
        for key, value in values.items():
            text = text.replace(key, repr(value))
        os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def train(self, status=0, wrong=False, loader=None):
        self.write("train.py", TRAINING, STATUS=status, WRONG=wrong, LOADER=loader or {})

    def run_there(self, *command, **more):
        known = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE", "PYTHONPATH") and not name.startswith("LOCKSTEP")}
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
                              env={**known, "OMP_NUM_THREADS": "1", **more})

    def record(self, *command, **more):
        return self.run_there(self.lockstep, "record", "--out", "out", "--", *command, **more)

    def judged(self):
        return self.run_there(self.lockstep, "judge", "out").returncode

    def assert_ranks(self):
        self.assertEqual(sorted(os.listdir(self.out)), RANKS)

    def test_an_unchanged_program_of_torchrun_is_recorded_and_judged(self):
        for wrong in (False, True):
            with self.subTest(wrong=wrong):
                self.out = os.path.join(self.folder, "out")
                self.train(wrong=wrong)
                result = self.record(*TORCHRUN, "train.py", "--an", "argument")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_ranks()
                self.assertEqual(self.judged(), int(wrong))
                os.rename(self.out, self.out + str(wrong))

    def test_output_and_exit_status_are_the_programs(self):
        self.train(status=3)
        command = [peer.PYTHON, "train.py"]
        alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        plain = self.run_there(*command, **alone)
        recorded = self.record(*command, **alone)
        self.assertEqual((plain.returncode, plain.stderr), (3, ""))
        self.assertEqual((recorded.returncode, recorded.stdout), (3, plain.stdout))
        self.assertEqual(recorded.stderr.splitlines(), ["lockstep: records into out; when it has ended: %s judge out" % self.lockstep])
        self.assertEqual(os.listdir(self.out), ["rank0.history"])

    def test_its_one_line_names_what_can_be_typed_next(self):
        self.train()
        alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        result = self.run_there(self.lockstep, "record", "--out", "a folder", "--", peer.PYTHON, "train.py", **alone)
        line, = result.stderr.splitlines()
        judged = self.run_there("bash", "-c", line.partition("; when it has ended: ")[2])
        self.assertIn("run.is_recorded_whole", judged.stdout, line)
        moved = self.run_there(self.lockstep, "record", "--out", "a folder", "--perturb", "1", "--", "true")
        self.assertIn("judge RANKS --against 'a folder'", moved.stderr)
        other_rank = self.run_there(self.lockstep, "record", "--out", "new", "--", "true", RANK="1")
        self.assertEqual((other_rank.returncode, other_rank.stderr), (0, ""))

    def test_a_moved_run_is_recorded_below_the_run_that_it_is_compared_with(self):
        self.train()
        alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        statuses = []
        for flags in ([], ["--perturb", "1"], ["--perturb", "2"], ["--perturb", "2"]):
            result = self.run_there(self.lockstep, "record", "--out", "out", *flags, "--", peer.PYTHON, "train.py", **alone)
            statuses.append(result.returncode)
        self.assertEqual(statuses, [0, 0, 0, 2], result.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), ["perturbed-1", "perturbed-2", "rank0.history"])
        self.assertIn("out/perturbed-2: holds a recorded run already", result.stderr)

    def test_workers_that_are_started_afresh_are_no_ranks(self):
        self.train(loader=FRESH_WORKERS)
        result = self.record(*TORCHRUN, "train.py")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("lockstep_recorder", result.stderr)
        self.assert_ranks()
        self.assertEqual(self.judged(), 0)

    def test_ranks_that_the_program_spawns_are_recorded(self):
        self.write("train.py", test_started.SPAWNED)
        result = self.record(peer.PYTHON, "train.py", os.path.join(self.folder, "store"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_ranks()

    def test_workers_of_spawned_ranks_that_set_their_variables_are_no_ranks(self):
        self.write("train.py", SPAWNED_WITH_VARIABLES)
        result = self.record(peer.PYTHON, "train.py", os.path.join(self.folder, "store"))
        self.assertEqual((result.returncode, sorted(result.stdout.splitlines())), (0, ["rank 0 28", "rank 1 28"]), result.stderr)
        self.assertNotIn("lockstep_recorder", result.stderr)
        self.assert_ranks()

    def test_a_program_that_starts_the_recorder_is_recorded_once(self):
        self.train()
        recorder = os.path.join(peer.ROOT, "recorder", "python")
        for command in ([*TORCHRUN, "-m", "lockstep_recorder", "train.py"], [*TORCHRUN, "started.py"]):
            with self.subTest(command=command[-2:]):
                self.write("started.py", "import torch, lockstep_recorder\nlockstep_recorder.start()\nimport train\ntrain.main()\n")
                result = self.record(*command, PYTHONPATH=recorder)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_ranks()
                self.assertEqual(self.judged(), 0)
                os.rename(self.out, os.path.join(self.folder, "was " + command[-1]))

    def test_a_module_of_the_same_name_that_the_program_brings_is_run(self):
        self.write("own/sitecustomize.py", "print('the program\\'s own')\n")
        self.write("train.py", "import sys\nprint('ran')\n")
        result = self.record(peer.PYTHON, "train.py", PYTHONPATH=os.path.join(self.folder, "own"))
        self.assertEqual((result.returncode, result.stdout), (0, "the program's own\nran\n"), result.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_an_empty_pythonpath_lists_no_folder(self):
        self.write("there/train.py", "import os, sys\nprint(os.getcwd() in sys.path or '' in sys.path)\n")
        result = self.record(peer.PYTHON, "there/train.py", PYTHONPATH="")
        self.assertEqual((result.returncode, result.stdout), (0, "False\n"), result.stderr)

    def test_what_cannot_be_recorded_is_refused(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "rank0.history"), "wb"):
            pass
        for arguments, sentence in (([], "record: say which program"),
                                    (["--", "true"], "--out out: holds a recorded run already; name a new folder"),
                                    (["--nothing", "true"], "record: unknown option '--nothing'"),
                                    (["--out", "new", "./absent"], "record: ./absent cannot be started: No such file or directory"),
                                    (["--out", "new", "--values", "many", "true"], "--values many: expected a whole number")):
            with self.subTest(arguments=arguments):
                result = self.run_there(self.lockstep, "record", *(["--out", "out"] if "--out" not in arguments else []), *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(sentence, result.stderr)


if __name__ == "__main__":
    peer.main(Recorded)

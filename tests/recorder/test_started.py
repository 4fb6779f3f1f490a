"""The recorder of Python in processes that are started in other ways than by torchrun, from a copy of its one file.

usage: test_started.py LOCKSTEP
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import peer
from peer import PYTHON, ROOT

TRAINING = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(rank, world, store, fails_on=None, rate=0.1):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
    ddp = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for _ in range(2):
        optimizer.zero_grad()
        ddp(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.barrier()
    if rank == fails_on:
        raise ValueError("a bad sample " + "x" * 600 + " of rank %d" % rank)
    dist.destroy_process_group()
"""
SPAWNED = TRAINING + """
if __name__ == "__main__":
    import torch.multiprocessing
    torch.multiprocessing.spawn(train, args=(2, sys.argv[1], 1 if "fails" in sys.argv else None), nprocs=2)
"""
PROCESSES = TRAINING + """
if __name__ == "__main__":
    import torch.multiprocessing as mp
    mp.set_start_method("fork")
    ranks = [mp.Process(target=train, args=(rank, 2, sys.argv[1])) for rank in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
    sys.exit(sum(each.exitcode for each in ranks))
"""
NAMES_BEFORE = TRAINING + """
from torch.distributed import all_reduce
import lockstep_recorder
lockstep_recorder.start(rank=0, world=1)
train(0, 1, sys.argv[1] + " first")
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
all_reduce(torch.ones(3))
sys.exit(3)
"""
KEYWORDS = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

mesh = init_device_mesh(device_type="cpu", mesh_shape=(1,))
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
model = parallelize_module(module=model, device_mesh=mesh, parallelize_plan={"0": ColwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for factor in (1, float("inf")):
    optimizer.zero_grad()
    scaler.scale(factor * model(torch.ones(2, 4)).sum()).backward()
    scaler.step(optimizer=optimizer)
    scaler.update()
"""
ALONE = TRAINING + """
import lockstep_recorder
lockstep_recorder.start()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
print("trained")
"""


class Started(unittest.TestCase):
    lockstep = ""  # the program that judges

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep started ")
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "recorded")
        shutil.copytree(os.path.join(ROOT, "recorder", "python", "lockstep_recorder"), os.path.join(self.folder, "lockstep_recorder"))

    def run_program(self, text, *arguments, module=(), **environment):
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(text)
        known = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "PYTHONPATH")}
        return subprocess.run([PYTHON, "-B", *module, "train.py", os.path.join(self.folder, "store"), *arguments], cwd=self.folder,
                              capture_output=True, text=True, timeout=300, check=False,
                              env={**known, "OMP_NUM_THREADS": "1", "LOCKSTEP_RECORD": self.out, **environment})

    def history(self, rank):
        with open(os.path.join(self.out, "rank%d.history" % rank), "rb") as file:
            return file.read().decode("latin-1")

    def judge(self):
        return subprocess.run([self.lockstep, "judge", self.out], capture_output=True, text=True, timeout=120, check=False)

    def test_ranks_that_the_program_spawns_are_recorded(self):
        result = self.run_program(SPAWNED, module=("-m", "lockstep_recorder"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), ["rank0.history", "rank1.history"])
        for rank in (0, 1):
            self.assertIn('"kind":"returned"', self.history(rank))
        self.assertIn(self.judge().returncode, (0, 1))

    def test_what_the_main_file_of_spawned_ranks_imports_by_name_is_seen(self):
        by_name = "from torch.distributed import init_process_group\n" + SPAWNED.replace("dist.init_process_group(", "init_process_group(")
        result = self.run_program(by_name, module=("-m", "lockstep_recorder"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(os.listdir(self.out)), ["rank0.history", "rank1.history"])

    def test_what_is_passed_by_keyword_and_the_group_of_a_mesh_are_seen(self):
        result = self.run_program(KEYWORDS, module=("-m", "lockstep_recorder"), RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                                  MASTER_PORT="0")
        self.assertEqual(result.returncode, 0, result.stderr)
        for said in ('"name":"process group"', '"wrapper":"fully_shard"', '"name":"skipped"'):
            self.assertIn(said, self.history(0))
        self.assertNotIn('"name":"not recorded"', self.history(0))

    def test_a_spawned_rank_that_throws_leaves_the_whole_text(self):
        result = self.run_program(SPAWNED, "fails", module=("-m", "lockstep_recorder"))
        self.assertIn("a bad sample", result.stderr)
        self.assertRegex(self.history(1), r'"kind":"threw","why":"ValueError: a bad sample x{600} of rank 1"')

    def test_ranks_that_are_forked_are_recorded(self):
        result = self.run_program(PROCESSES, module=("-m", "lockstep_recorder"))
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in (0, 1):
            self.assertEqual(len(re.findall(r'"name":"optimizer 0"', self.history(rank))), 2)
            self.assertIn('"kind":"returned"', self.history(rank))

    def test_what_the_program_holds_lives_until_the_interpreter_ends(self):
        text = ("import atexit, sys, torch\nclass Held:\n    def __del__(self): print('let go')\nheld = Held()\n"
                "atexit.register(print, 'ends')\nprint(sys.modules['__main__'].held is held, __name__, __file__, __doc__)\n")
        plain = self.run_program(text, LOCKSTEP_RECORD="")
        self.assertEqual(plain.stdout, "True __main__ %s None\nends\nlet go\n" % os.path.join(self.folder, "train.py"))
        recorded = self.run_program(text, module=("-m", "lockstep_recorder"))
        self.assertEqual((recorded.returncode, recorded.stderr), (0, ""))
        self.assertEqual(recorded.stdout, plain.stdout)

    def test_names_imported_before_the_start_are_seen_and_the_exit_status(self):
        result = self.run_program(NAMES_BEFORE)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn('"op":"allreduce","group":"world","dtype":"float32"', self.history(0))
        self.assertRegex(self.history(0), r'"at":"train.py:\d+ in <module>"')
        self.assertIn('"kind":"exited","why":"3"', self.history(0))

    def test_a_training_alone_is_rank_0_of_1_and_a_second_one_in_the_folder_runs_unrecorded(self):
        result = self.run_program(ALONE)
        self.assertEqual((result.returncode, result.stdout), (0, "trained\n"), result.stderr)
        before = self.history(0)
        self.assertIn('"rank":0,"world":1', before)
        self.assertIn('"of":"optimizer 0","role":"parameters"', before)
        result = self.run_program(ALONE)
        self.assertEqual((result.returncode, result.stdout), (0, "trained\n"), result.stderr)
        self.assertIn("rank0.history: is there already; record into a new folder; this process is not recorded", result.stderr)
        self.assertEqual(self.history(0), before)

    def test_a_launched_rank_whose_file_is_there_is_refused_before_the_program_begins(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "rank0.history"), "wb"):
            pass
        result = self.run_program(ALONE, RANK="0")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("rank0.history: is there already; record into a new folder", result.stderr)

    def test_a_training_runs_where_nothing_can_be_written(self):
        with open(self.out, "wb"):
            pass
        result = self.run_program(ALONE, RANK="0", LOCKSTEP_RECORD=os.path.join(self.out, "below"))
        self.assertEqual((result.returncode, result.stdout), (0, "trained\n"), result.stderr)
        self.assertIn("rank0.history: Not a directory; this process is not recorded", result.stderr)

    def test_a_program_that_leaves_at_once_has_ended(self):
        for status, ending in (0, '"kind":"returned","why":""'), (3, '"kind":"exited","why":"3"'):
            with self.subTest(status=status):
                result = self.run_program(ALONE + "import os\nos._exit(%d)\n" % status, LOCKSTEP_RECORD=self.out + str(status))
                self.assertEqual(result.returncode, status, result.stderr)
                with open(os.path.join(self.out + str(status), "rank0.history"), "rb") as file:
                    self.assertIn(ending, file.read().decode("latin-1"))

    def test_a_module_runs_as_python_runs_it(self):
        os.mkdir(os.path.join(self.folder, "package"))
        for name, text in ("__init__", ""), ("part", "VALUE = 7\n"), ("train", "from .part import VALUE\nimport sys\nprint(__name__, VALUE, "
                                                                       "__package__, __spec__.name, sys.argv, sys.path[0], vars() is "
                                                                       "vars(sys.modules['__main__']))\n"):
            with open(os.path.join(self.folder, "package", name + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        said = [self.run_program("", module=module, LOCKSTEP_RECORD=out) for module, out in
                ((("-m", "package.train"), ""), (("-m", "lockstep_recorder", "-m", "package.train"), self.out))]
        self.assertEqual([(each.returncode, each.stderr) for each in said], [(0, "")] * 2)
        self.assertIn("__main__ 7 package package.train", said[0].stdout)
        self.assertEqual(said[0].stdout, said[1].stdout)

    def test_a_program_ends_as_it_does_where_the_recorder_cannot_begin(self):
        os.mkdir(os.path.join(self.folder, "torch"))
        for error in "ImportError('no such module')", "OSError('libtorch.so: cannot open shared object file')":
            with open(os.path.join(self.folder, "torch", "__init__.py"), "w", encoding="utf-8") as file:
                file.write("raise " + error)
            said = "lockstep_recorder: nothing is recorded: %s: %s\n" % tuple(error.strip(")'").split("('"))
            for text in "print('begins')\nraise ValueError('planted')\n", "import sys\nsys.exit(4)\n", "import torch\n", "print('ends')\n":
                with self.subTest(error=error, program=text):
                    plain = self.run_program(text, LOCKSTEP_RECORD="")
                    recorded = self.run_program(text, module=("-m", "lockstep_recorder"))
                    self.assertEqual((recorded.returncode, recorded.stdout), (plain.returncode, plain.stdout))
                    self.assertTrue(recorded.stderr.startswith(said), recorded.stderr)
                    ends = [each.splitlines()[-1:] for each in (plain.stderr, recorded.stderr[len(said):])]
                    self.assertEqual(ends[0], ends[1])
                    self.assertEqual(recorded.stderr.count("Traceback"), plain.stderr.count("Traceback"))

    def test_ranks_that_torchrun_starts_again_are_recorded_apart(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "rank0.history"), "wb"):
            pass
        result = self.run_program(ALONE, RANK="0", TORCHELASTIC_RESTART_COUNT="1")
        self.assertEqual((result.returncode, result.stdout), (0, "trained\n"), result.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.out, "restart-1", "rank0.history")))

    def test_ranks_that_one_agent_starts_in_another_world_are_recorded_apart(self):
        """torchrun counts no restart where nodes come or go: the variable stays as it was."""
        for world in ("1", "2", "1"):
            for rank in range(int(world)):
                result = self.run_program(ALONE, RANK=str(rank), WORLD_SIZE=world, TORCHELASTIC_RESTART_COUNT="0")
                self.assertEqual((result.returncode, result.stdout), (0, "trained\n"), result.stderr)
        self.assertEqual({folder: sorted(each for each in os.listdir(os.path.join(self.out, folder)) if each.startswith("rank"))
                          for folder in (".", "restart-1", "restart-2")},
                         {".": ["rank0.history"], "restart-1": ["rank0.history", "rank1.history"], "restart-2": ["rank0.history"]})

    def test_a_folder_of_another_agent_is_refused(self):
        os.mkdir(self.out)
        with open(os.path.join(self.out, "rank0.history"), "wb"):
            pass
        result = self.run_program(ALONE, RANK="0", TORCHELASTIC_RESTART_COUNT="0")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("rank0.history: is there already; record into a new folder", result.stderr)


if __name__ == "__main__":
    peer.main(Started)

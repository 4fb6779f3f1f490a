#!/usr/bin/env python3
"""NCCL as a program meets it: loaded or not, with GPUs or without.

usage: test_nccl.py CLASS

Unbuilt and Built run by what was built, Loading takes NVIDIA's libraries, of .venv or .venv-peer, and BesidePyTorch
.venv-peer or the Python that LOCKSTEP_PEER names. No test of a class is skipped alone: what a class lacks ends it with
77, which ctest reports as skipped. Tests that take a GPU are in test_nccl_on_gpus.py. ctest gives both, in LOCKSTEP_NCCL_*:
PROBE, LINKED and ALONE, programs, and STRANGER, a library; BUILT, where NCCL is built; ENVIRONMENT, a
program that prints the variables by which several ranks share a GPU.
"""

import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEER = os.environ.get("LOCKSTEP_PEER") or os.path.join(ROOT, ".venv-peer", "bin", "python")
IN_PYTORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sync_batch_norm", "sync_batch_norm_in_pytorch.py")
DEADLINE_S = 200
NO_GPU = {"this machine has no NVIDIA GPU, or no driver for it"}


def setting(name):
    return os.environ["LOCKSTEP_NCCL_" + name]


def nvidia_folders():
    """The folders of NVIDIA's libraries, all that libtorch_cuda needs; empty where they are not installed."""
    for venv in (".venv", ".venv-peer"):
        folders = glob.glob(os.path.join(ROOT, venv, "lib/python3*/site-packages/nvidia/*/lib"))
        if any(glob.glob(folder + "/libcudnn.so.*") for folder in folders):
            return ":".join(sorted(folders))
    return ""


def environment(**variables):
    """Without what a launcher or a person may have set, and with these."""
    keep = {name: value for name, value in os.environ.items()
            if not name.startswith(("NCCL_", "TORCH_", "CUDA_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "LD_"))}
    return {**keep, **variables}


def run(program, *arguments, **variables):
    """(exit status, lines of its stdout)"""
    result = subprocess.run([program, *arguments], env=environment(**variables), timeout=DEADLINE_S, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode < 0:
        raise AssertionError("it died of signal %d\n%s%s" % (-result.returncode, result.stdout, result.stderr))
    return result.returncode, result.stdout.splitlines()


def skip_class(reason):
    print("skipped: " + reason)
    sys.exit(77)


def needs_pytorch():
    if not os.path.exists(PEER):
        skip_class("there is no .venv-peer: ./lockstep setup --peer makes it")


class Unbuilt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if setting("BUILT") == "1":
            skip_class("NCCL is built")

    def test_a_build_without_nccl_says_why(self):
        _, (said,) = run(setting("PROBE"), "load")
        self.assertRegex(said, r"^this Lockstep was built without NCCL \(.+\)$")


class Driverless(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.path.exists("/dev/nvidiactl"):
            skip_class("there is a driver")

    def test_by_default_nothing_is_loaded_for_the_question(self):
        status, (said,) = run(setting("PROBE"), "init=")
        self.assertEqual((status, said),
                         (0, "cpu:gloo (no nccl: this machine has no NVIDIA GPU, or no driver for it)"))


class Built(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if setting("BUILT") != "1":
            skip_class("NCCL is not built: see what CMake prints")

    def test_a_library_of_another_version_is_refused_by_both_names(self):
        _, (loaded,) = run(setting("PROBE"), "load", LD_LIBRARY_PATH=os.path.dirname(setting("STRANGER")))
        self.assertRegex(loaded, r"^liblockstep_nccl\.so was made for Lockstep 0\.0\.9 on PyTorch 2\.10\.0, and this "
                         r"program for Lockstep \S+ on PyTorch \S+$")


class WithoutLibraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if setting("BUILT") != "1":
            skip_class("NCCL is not built: see what CMake prints")
        if glob.glob(os.path.join(ROOT, ".venv/lib/python3*/site-packages/nvidia/cudnn")):
            skip_class("NVIDIA's libraries are installed in .venv")

    def test_without_nvidias_libraries_one_sentence_names_what_lacks(self):
        status, (loaded, gpus, asked) = run(setting("PROBE"), "load", "gpus", "init=nccl")
        self.assertRegex(loaded, r"^LibTorch's CUDA part cannot be loaded \(lib\S+\.so\S*: cannot open shared "
                         r"object file: .+\): the libraries of NVIDIA that LibTorch needs are not installed$")
        self.assertEqual(gpus, loaded)
        self.assertEqual(asked, "threw: rank 0 cannot take part: it is to carry CUDA tensors over nccl, and "
                         "cannot: " + loaded)
        self.assertEqual(status, 1)


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if setting("BUILT") != "1":
            skip_class("NCCL is not built: see what CMake prints")
        if not nvidia_folders():
            skip_class("NVIDIA's libraries are not installed: ./lockstep setup --gpu, or --peer, does it")

    def needs_libraries(self):
        return {"LD_LIBRARY_PATH": nvidia_folders(), "CUDA_VISIBLE_DEVICES": ""}

    def test_with_them_it_is_loaded_and_says_that_there_is_no_gpu(self):
        variables = self.needs_libraries()
        _, (loaded, gpus, made, asked) = run(setting("PROBE"), "load", "gpus", "make", "init=cpu:gloo,cuda:nccl", **variables)
        self.assertEqual(loaded, "NCCL 2.28.9, CUDA 13.0")
        self.assertTrue(gpus in NO_GPU or "No CUDA GPUs are available" in gpus, gpus)
        # ProcessGroupNCCL's own error, past our question.
        self.assertEqual(made, "threw: ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        self.assertEqual(asked, "threw: rank 0 cannot take part: it is to carry CUDA tensors over nccl, and "
                         "cannot: " + gpus)

    def test_without_a_gpu_no_stream_is_held_up(self):
        _, (_, said) = run(setting("PROBE"), "load", "hold", **self.needs_libraries())
        self.assertRegex(said, "^threw: .*(CUDA|NVIDIA)")

    def test_its_settings_are_set_before_the_backend_is_made_and_the_users_stay(self):
        variables = self.needs_libraries()
        before = "TORCH_NCCL_ASYNC_ERROR_HANDLING= TORCH_NCCL_DUMP_ON_TIMEOUT= "
        _, lines = run(setting("PROBE"), "settings", "make", "settings", **variables)
        self.assertEqual(lines[0], before)
        self.assertEqual(lines[2], "TORCH_NCCL_ASYNC_ERROR_HANDLING=2 TORCH_NCCL_DUMP_ON_TIMEOUT=0 ")
        _, lines = run(setting("PROBE"), "make", "settings", TORCH_NCCL_ASYNC_ERROR_HANDLING="1", **variables)
        self.assertEqual(lines[1], "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_DUMP_ON_TIMEOUT=0 ")

    def test_loaded_after_libtorch_was_asked_for_cuda_it_is_refused(self):
        variables = self.needs_libraries()
        _, (_, loaded) = run(setting("PROBE"), "seed", "load", **variables)
        self.assertEqual(loaded, "LibTorch was asked for CUDA before libtorch_cuda was loaded, and keeps its answer: "
                         "link lockstep::nccl, or call lockstep::load_nccl() first thing in main")
        _, (loaded, _) = run(setting("PROBE"), "load", "seed", **variables)
        self.assertEqual(loaded, "NCCL 2.28.9, CUDA 13.0")

    def test_a_program_that_links_it_may_ask_in_any_order(self):
        variables = self.needs_libraries()
        _, (_, loaded) = run(setting("LINKED"), "seed", "load", **variables)
        self.assertEqual(loaded, "NCCL 2.28.9, CUDA 13.0")

    def test_a_library_that_is_nowhere_is_named_and_found_beside_the_program(self):
        variables = self.needs_libraries()
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(setting("ALONE"), folder)
            _, (loaded,) = run(alone, "load", **variables)
            self.assertEqual(loaded, "liblockstep_nccl.so is neither beside this program nor where its loader looks")
            shutil.copy(setting("LIBRARY"), folder)
            _, (loaded,) = run(alone, "load", **variables)
            self.assertEqual(loaded, "NCCL 2.28.9, CUDA 13.0")

    def test_a_broken_library_is_named(self):
        variables = self.needs_libraries()
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "liblockstep_nccl.so"), "w", encoding="utf-8"):
                pass
            variables["LD_LIBRARY_PATH"] = folder + ":" + variables["LD_LIBRARY_PATH"]
            _, (loaded,) = run(setting("PROBE"), "load", **variables)
        self.assertRegex(loaded, r"^LibTorch's CUDA part cannot be loaded \(.*liblockstep_nccl\.so: file too short\)$")


class Worlds(unittest.TestCase):
    """Worlds of processes, on this machine's GPUs or without."""

    variables = {}

    def result_of(self, size, command, share=False):
        """(what it said, exit status) of each rank."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        ranks = []
        try:
            for rank in range(size):
                shared = {}
                if share:
                    lines = subprocess.run([setting("ENVIRONMENT"), str(rank), "test" + port, *self.version()],
                                           check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
                    shared = dict(line.split("=", 1) for line in lines)
                ranks.append(subprocess.Popen(
                    command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    env=environment(**self.variables, **shared, RANK=str(rank), WORLD_SIZE=str(size),
                                    LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)))
            return [(process.communicate(timeout=DEADLINE_S)[0], process.returncode) for process in ranks]
        finally:
            for process in ranks:  # One that spins keeps the GPU.
                process.kill()
                process.wait()

    def version(self):
        """Major and minor of the NCCL that a rank loads."""
        _, (said,) = run(setting("PROBE"), "load", **self.variables)
        return re.match(r"NCCL (\d+)\.(\d+)\.", said).groups()

    def probe(self, size, *arguments, share=False):
        return self.result_of(size, [setting("PROBE"), "load", *arguments], share)

    def normalised(self, results):
        """{name: numbers} of each rank."""
        ranks = []
        for said, status in results:
            self.assertEqual(status, 0, said)
            line, = re.findall(r"(?m)^normalised (.+);$", said)
            named = (part.split(":") for part in line.split(";"))
            ranks.append({name: [float(number) for number in numbers.split()] for name, numbers in named})
        return ranks

    def assert_normalised_alike(self, ours, theirs):
        """Within what six decimals and another order of sums may do."""
        self.assertEqual(len(ours), len(theirs))
        for mine, its in zip(ours, theirs):
            self.assertEqual(list(mine), list(its))
            self.assertEqual(len(mine), 6)
            for name in mine:
                self.assertEqual(len(mine[name]), len(its[name]), name)
                for one, other in zip(mine[name], its[name]):
                    self.assertAlmostEqual(one, other, delta=2e-5 * max(1, abs(other)), msg=name)


class BesidePyTorch(Worlds):
    @classmethod
    def setUpClass(cls):
        needs_pytorch()

    def test_batch_norm_over_ranks_is_that_of_all_their_batches(self):
        for size in (2, 3):
            status, lines = run(PEER, IN_PYTORCH, "cpu", str(size))
            self.assertEqual(status, 0)
            self.assert_normalised_alike(self.normalised(self.probe(size, "norm=cpu:gloo")),
                                         self.normalised([(line, 0) for line in lines]))


if __name__ == "__main__":
    unittest.main(verbosity=2)

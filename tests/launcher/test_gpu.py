"""Checks what ./lockstep setup --gpu promises of NVIDIA's libraries (launcher_case.py says how it is watched), and what
docs/gpu/check.sh does where there is no GPU."""

import os
import subprocess
import tempfile
import unittest

from launcher_case import ROOT, Launcher


class Gpu(Launcher):
    def setUp(self):
        super().setUp()
        self.tell("free_kb", str(20000 * 1024))

    def installs(self):
        return [call for call in self.calls() if " -m pip install " in call]

    def marker(self):
        return self.in_tree(".venv", ".complete-gpu")

    def test_the_libraries_go_into_venv_without_what_they_depend_on(self):
        self.assert_ran(self.launch("setup", "--gpu"))
        ours, gpus = self.installs()
        self.assertTrue(ours.endswith("/requirements.txt"), ours)
        self.assertTrue(gpus.endswith("/requirements-gpu.txt"), gpus)
        self.assertIn(" --no-deps ", gpus)
        with open(self.marker(), encoding="utf-8") as file:
            self.assertIn("nvidia-nccl-cu13==", file.read())

    def test_what_is_there_is_not_installed_again(self):
        self.launch("setup", "--gpu")
        self.calls()
        result = self.launch("setup", "--gpu")
        self.assert_ran(result)
        self.assertEqual(result.err, "lockstep: NVIDIA's libraries are complete in .venv\n")
        self.assertEqual(self.installs(), [])

    def test_every_build_looks_for_nccl_again(self):
        self.assert_ran(self.launch("build"))
        ninja = self.in_tree("build", "release", "build.ninja")
        self.assertTrue(os.path.exists(ninja))
        self.assert_ran(self.launch("setup", "--gpu"))
        self.assertFalse(os.path.exists(ninja))

    def test_without_the_option_nothing_of_it_is_installed(self):
        self.assert_ran(self.launch("setup"))
        self.assertEqual(len(self.installs()), 1)
        self.assertFalse(os.path.exists(self.marker()))

    def test_a_venv_that_is_made_anew_keeps_them(self):
        self.assert_ran(self.launch("setup", "--gpu"))
        with open(self.in_tree("requirements.txt"), "a", encoding="utf-8") as file:
            file.write("another==1\n")
        self.calls()
        self.assert_ran(self.launch("setup"))
        self.assertEqual(len(self.installs()), 2)
        self.assertTrue(os.path.exists(self.marker()))

    def test_a_failed_download_says_so_and_leaves_libtorch_whole(self):
        self.assert_ran(self.launch("setup"))
        self.tell("pip_fails", "ERROR: Could not find a version that satisfies the requirement\n")
        self.assert_refused(self.launch("setup", "--gpu"), "pip could not install NVIDIA's libraries",
                            "Could not find a version", "Check the network", "build/logs/pip-gpu.log")
        self.assertTrue(os.path.exists(self.in_tree(".venv", ".complete")))
        self.assertFalse(os.path.exists(self.marker()))
        self.untell("pip_fails")
        self.assert_ran(self.launch("setup", "--gpu"))
        self.assertTrue(os.path.exists(self.marker()))

    def test_too_little_disk_is_refused_before_anything_is_fetched(self):
        self.assert_ran(self.launch("build"))
        self.tell("free_kb", str(3000 * 1024))
        self.assert_refused(self.launch("setup", "--gpu"), "needs 4700 MB of disk, and 3000 MB are free")

    def test_both_options_may_be_given(self):
        self.assert_ran(self.launch("setup", "--peer", "--gpu"))
        self.assertEqual(len(self.installs()), 3)


class Check(unittest.TestCase):
    def test_without_a_gpu_it_says_so_and_does_nothing(self):
        if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg"):
            self.skipTest("this machine has a GPU, and the check takes half an hour")
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            result = subprocess.run([os.path.join(ROOT, "docs", "gpu", "check.sh"), kept], text=True, check=False,
                                    capture_output=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout), (77, ""))
            self.assertEqual(result.stderr, "check.sh: this machine has no NVIDIA GPU, or no driver for it: nothing was "
                             "run\n")
            self.assertFalse(os.path.exists(kept))


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""docs/gpu/check.sh, in a made-up tree whose commands are fakes: what it runs, cuts short, and says in the end; and
docs/gpu/bundle.sh, with programs that do nothing."""

import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = "docs/gpu/check.sh"
FILES = "ddp/backend/gpu_device_files.h"


def is_gone(pid):
    """Within ten seconds, in which what was asked to end does; where nobody collects the dead, dead is gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
    return False


class Made(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep gpu ")  # A space, since some have one.
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        for name in (SCRIPT, FILES):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), self.path(name))
        self.has_a_file("/dev/null")
        for name in ("build/release/cli/lockstep", "tests/mutants/try.py"):
            self.fake(name, "echo ran %s \"$@\"" % name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def fake(self, name, body):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n%s\n" % body)
        os.chmod(self.path(name), 0o755)

    def has_a_file(self, name, rule=FILES):
        with open(self.path(rule), "w", encoding="utf-8") as file:
            file.write('constexpr const char* kGpuDeviceFiles[] = {"/dev/no-such-thing", "%s"};\n' % name)

    def check(self, *arguments, where=None):
        """(exit status, what it said, summary)"""
        result = subprocess.run([self.path(SCRIPT), *arguments, self.path("kept")], cwd=where or self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=100)
        summary = self.path("kept/summary.txt")
        kept = ""
        if os.path.exists(summary):
            with open(summary, encoding="utf-8") as file:
                kept = file.read()
        return result.returncode, result.stdout, kept


class GpuCheck(Made):
    def test_the_rule_for_a_gpu_is_the_librarys(self):
        with open(os.path.join(ROOT, FILES), encoding="utf-8") as file:
            text = file.read()
        for name in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu"):
            self.assertIn('"%s"' % name, text)
        self.has_a_file("/dev/neither")
        status, said, _ = self.check("--only", "doctor")
        self.assertEqual(status, 77, said)
        self.assertIn("no NVIDIA GPU", said)
        self.assertFalse(os.path.exists(self.path("kept")))

    def test_what_holds_is_kept_and_reported(self):
        status, said, summary = self.check("--only", "doctor,race", where="/")
        self.assertEqual(status, 0, said)
        self.assertRegex(summary, r"\Adoctor +held +\d+ s\nrace +held +\d+ s\n\Z")
        self.assertTrue(said.endswith("all held\n"), said)
        with open(self.path("kept/doctor.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "ran build/release/cli/lockstep doctor\n")

    def test_one_that_fails_keeps_none_of_the_others(self):
        self.fake("build/release/cli/lockstep", "test $1 = run")
        status, said, summary = self.check("--only", "doctor,first,nccl")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, r"\Adoctor +FAILED: exit 1 +\d+ s\n    it printed nothing\nfirst +held +\d+ s\n"
                         r"nccl +held +\d+ s\n\Z")
        self.assertNotIn("all held", said)

    def test_the_summary_says_why_one_failed(self):
        self.fake("build/release/cli/lockstep",
                  'if [ $1 = doctor ]; then printf "1\\n2\\n\\n3\\n4\\n5\\n"; exit 3; fi\n'
                  'printf "  FAIL\\n✗ A rule\\n  rank 1 broke it\\n  more\\nrun: here\\n"; exit 1')
        _, _, summary = self.check("--only", "doctor,first")
        self.assertRegex(summary, r"\Adoctor +FAILED: exit 3 +\d+ s\n    2\n    3\n    4\n    5\n"
                         r"first +FAILED: exit 1 +\d+ s\n    ✗ A rule\n      rank 1 broke it\n\Z")

    def test_worlds_made_for_a_case_come_before_those_that_are_kept(self):
        self.fake("build/release/cli/lockstep", "echo \"$@\"")
        self.check("--only", "warm,first")
        tiers = []
        for step in ("first", "warm"):
            with open(self.path("kept/%s.txt" % step), encoding="utf-8") as file:
                tiers.append(re.search(r"--tier (\w+)", file.read())[1])
        self.assertEqual(tiers, ["cold", "warm"])
        _, said, _ = self.check("--only", "warm,first")
        self.assertLess(said.index("== first"), said.index("== warm"))

    def test_one_that_hangs_ends_with_all_that_it_started(self):
        with open(self.path(SCRIPT), encoding="utf-8") as file:
            text = file.read()
        with open(self.path(SCRIPT), "w", encoding="utf-8") as file:
            file.write(text.replace("doctor:60", "doctor:11"))
        pids = self.path("pids")
        self.fake("build/release/cli/lockstep",
                  'if [ $1 = run ]; then exit; fi\n(echo $BASHPID >>"%s"; exec sleep 600) &\necho $$ >>"%s"\nwait' % (pids, pids))
        status, said, summary = self.check("--only", "doctor,first")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, r"\Adoctor +TIMED OUT after 11 s +\d+ s\n    it printed nothing\nfirst +held +\d+ s\n\Z")
        with open(pids, encoding="utf-8") as file:
            for pid in file.read().split():
                self.assertTrue(is_gone(pid), pid)

    def test_without_time_a_step_is_reported_and_not_run(self):
        with open(self.path(SCRIPT), encoding="utf-8") as file:
            text = file.read()
        with open(self.path(SCRIPT), "w", encoding="utf-8") as file:
            file.write(text.replace("minutes * 60", "minutes * 5"))
        status, said, summary = self.check("--minutes", "1", "--only", "doctor,first")
        self.assertEqual(status, 1, said)
        self.assertRegex(summary, r"\Adoctor +NOT RUN: no time was left +0 s\nfirst +NOT RUN")

    def test_a_step_that_is_none_is_refused(self):
        for arguments in (("--only", "doctor,docter"), ("--without", "docter"), ("--minutes", "soon"), ("--speed",)):
            status, said, summary = self.check(*arguments)
            self.assertEqual((status, summary), (2, ""), said)

    def test_every_step_that_is_listed_can_be_run(self):
        steps = subprocess.run([self.path(SCRIPT), "--steps"], text=True, check=True, stdout=subprocess.PIPE).stdout
        with open(self.path(SCRIPT), encoding="utf-8") as file:
            text = file.read()
        names = [line.split(":")[0] for line in steps.split()]
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertIn("\nstep_%s() {" % name, text)


class Bundle(Made):
    """In a folder of its own, beside a made-up PyTorch."""

    def setUp(self):
        super().setUp()
        self.build = self.path("built")
        for name in ("cli/lockstep", "cli/lockstep-torch", "tests/ddp/nccl_probe", "tests/worlds/one_gpu_environment",
                     "bench/bench_ddp_step", "harness/cuda/plugin/liblockstep_harness_nccl.so", "ddp/backend/nccl/liblockstep_nccl.so"):
            os.makedirs(os.path.dirname(os.path.join(self.build, name)), exist_ok=True)
            shutil.copy(shutil.which("true"), os.path.join(self.build, name))
        self.write("built/CMakeCache.txt", "LOCKSTEP_TORCH:PATH=%s\n" % self.path("site/torch"))
        self.write("site/torch/version.py", "__version__ = '2.11.0+cu130'\n")
        self.write("site/torch/__init__.py", "raise ImportError('it is not imported to be found')\n")
        os.makedirs(self.path("site/nvidia/cu13/lib"))

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def pack(self, *arguments):
        return subprocess.run([os.path.join(ROOT, "docs", "gpu", "bundle.sh"), "--build", self.build, *arguments,
                               self.path("bundle.tar.gz")], text=True, capture_output=True, check=False, timeout=100)

    def unpack_for(self, device_file, *arguments):
        """Where a machine that has this file has a GPU."""
        packed = self.pack(*arguments)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        self.assertIn("for PyTorch 2.11.0+cu130", packed.stdout)
        subprocess.run(["tar", "-C", self.folder, "-xzf", self.path("bundle.tar.gz")], check=True)
        self.has_a_file(device_file, "lockstep-gpu/" + FILES)

    def run_there(self, *arguments, **variables):
        environment = {**os.environ, "PYTHONPATH": self.path("site"), **variables}
        return subprocess.run([self.path("lockstep-gpu/docs/gpu/check.sh"), *arguments, self.path("kept")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=100,
                              env=environment)

    def test_what_was_not_built_with_nccl_is_not_packed(self):
        os.remove(os.path.join(self.build, "ddp/backend/nccl/liblockstep_nccl.so"))
        packed = self.pack()
        self.assertEqual((packed.returncode, packed.stdout), (2, ""))
        self.assertIn("holds no ddp/backend/nccl/liblockstep_nccl.so: build it with -DLOCKSTEP_NCCL=ON", packed.stderr)

    def test_without_a_gpu_it_says_so(self):
        self.unpack_for("/dev/neither")
        done = self.run_there()
        self.assertEqual(done.returncode, 77, done.stdout)
        self.assertIn("this machine has no NVIDIA GPU", done.stdout)

    def test_its_programs_find_the_pytorch_of_the_machine(self):
        self.unpack_for("/dev/null")
        self.fake("lockstep-gpu/build/release/cli/lockstep", 'echo "$LD_LIBRARY_PATH"')
        done = self.run_there("--only", "doctor", LD_LIBRARY_PATH="/of/the/user")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.path("kept/doctor.txt"), encoding="utf-8") as file:
            folders = file.read().strip().split(":")
        self.assertEqual(folders, [self.path("lockstep-gpu/lib"), self.path("site/torch/lib"),
                                   self.path("site/nvidia/cu13/lib"), "/of/the/user"])
        steps = self.run_there("--steps").stdout
        self.assertIn("first:", steps)
        for of_the_tree in ("setup", "build", "race"):
            self.assertNotIn("\n%s:" % of_the_tree, "\n" + steps)

    def test_a_program_with_a_race_has_to_fail(self):
        self.unpack_for("/dev/null", "--mistaken", self.build)
        for status, how in (1, "race +held"), (0, "race +FAILED: exit 1"), (3, "race +FAILED: exit 1"):
            self.fake("lockstep-gpu/build/mistaken/cli/lockstep", "exit %d" % status)
            self.assertRegex(self.run_there("--only", "race").stdout, "(?m)^" + how)

    def test_another_pytorch_and_none_are_reported(self):
        self.unpack_for("/dev/null")
        self.write("site/torch/version.py", "__version__ = '2.10.0+cu128'\n")
        done = self.run_there()
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stdout, r"has PyTorch 2\.10\.0\+cu128, and this bundle takes 2\.11\.0\+cu130")
        done = self.run_there(LOCKSTEP_PYTHON="/no/python")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("no Python here has PyTorch, and this bundle takes 2.11.0+cu130", done.stdout)


if __name__ == "__main__":
    unittest.main()

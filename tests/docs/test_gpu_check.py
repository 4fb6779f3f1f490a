#!/usr/bin/env python3
"""docs/gpu/check.sh, in a made-up tree whose commands are fakes: what it runs, cuts short, and says in the end."""

import os
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = "docs/gpu/check.sh"
FILES = "ddp/backend/gpu_device_files.h"


def is_gone(pid):
    """Within ten seconds, in which what was told to end does; where nobody collects the dead, dead is gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
    return False


class GpuCheck(unittest.TestCase):
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

    def has_a_file(self, name):
        with open(self.path(FILES), "w", encoding="utf-8") as file:
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

    def test_what_holds_is_kept_and_told(self):
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
        self.assertRegex(summary, r"\Adoctor +FAILED: exit 1 +\d+ s\nfirst +held +\d+ s\nnccl +held +\d+ s\n\Z")
        self.assertNotIn("all held", said)

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
        self.assertRegex(summary, r"\Adoctor +TIMED OUT after 11 s +\d+ s\nfirst +held +\d+ s\n\Z")
        with open(pids, encoding="utf-8") as file:
            for pid in file.read().split():
                self.assertTrue(is_gone(pid), pid)

    def test_without_time_a_step_is_told_and_not_run(self):
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


if __name__ == "__main__":
    unittest.main()

"""How runs of a user's file end: by Ctrl-C while its code hangs, by Ctrl-C as it is imported, and by SIGKILL.
LOCKSTEP names the program."""

import glob
import os
import signal
import stat
import subprocess
import textwrap
import time

from test_pytorch import MISSING, PATIENCE_S, PROGRAM, Case, unittest

INTERRUPTED = 130

# The body of wrap for each way to hang: in Python code, in a call of C without and with Python's lock, in a lock.
HANGS = {
    "in Python": "while True: pass",
    "in C": "time.sleep(10**6)",
    "in C with the interpreter's lock": "ctypes.PyDLL(None).sleep(10**6)",
    "in a lock": "threading.Event().wait()",
}
# The peers of rank 1 are in a collective, rank 1 is not.
ONE_HANGS = "time.sleep(10**6) if distributed.get_rank() == 1 else distributed.barrier()"


class OfRun(Case):
    def file(self, text):
        path = os.path.join(self.folder, "own.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def hanging(self, how):
        """A file whose wrap makes a file `begun` and hangs."""
        return self.file(f"""
            import ctypes, threading, time
            import torch, torch.distributed as distributed
            def wrap(module, process_group, options):
                options["broadcast_buffers"], options["init_sync"]
                open({self.begun!r}, "a").close()
                {how}
                return module
        """)

    @property
    def begun(self):
        return os.path.join(self.folder, "begun")

    def started(self, path, *arguments, **variables):
        process = subprocess.Popen(
            [PROGRAM, "run", "gradients.undefined", "--subject", "python:" + path, "--seed", "7", "--timeout", "600",
             "--out", os.path.join(self.folder, "out"), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **variables})
        self.addCleanup(lambda: process.stdout.close() or process.kill() or process.wait())
        self.wait_until(lambda: os.path.exists(self.begun) or process.poll() is not None)
        self.assertIsNone(process.poll(), "it ended before it hung")
        return process

    def wait_until(self, condition):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def left_running(self, path):
        """The processes whose command line has the file: the runner, its servers and their ranks."""
        found = []
        for file in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(file, "rb") as words:
                    found += [file] if path.encode() in words.read() else []
            except OSError:
                pass
        return found

    def finish(self, process):
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said


@unittest.skipIf(MISSING, MISSING)
class Interrupted(OfRun):
    def interrupt(self, how, *arguments, **variables):
        if os.path.exists(self.begun):
            os.remove(self.begun)
        path = self.hanging(how)
        process = self.started(path, *arguments, **variables)
        process.send_signal(signal.SIGINT)
        status, said = self.finish(process)
        self.assertEqual(status, INTERRUPTED, said)
        self.assertIn("no result for 1 scenario: the run was interrupted", said)
        self.assertEqual(self.left_running(path), [])

    def test_ctrl_c_ends_a_run_whose_file_hangs(self):
        for tier, kinds in (("sim", HANGS), ("warm", ["in Python", "in C with the interpreter's lock"]), ("cold", ["in C"])):
            for name in kinds:
                with self.subTest(tier=tier, hangs=name):
                    self.interrupt(HANGS[name], "--tier", tier)

    def test_ctrl_c_ends_a_run_in_which_one_rank_hangs_and_its_peers_wait(self):
        for tier in ("sim", "warm"):
            with self.subTest(tier=tier):
                self.interrupt(ONE_HANGS, "--tier", tier)

    def test_ctrl_c_ends_a_run_that_looks_up_the_lines_of_a_deadlock(self):
        programs = os.path.join(self.folder, "programs")
        os.mkdir(programs)
        for name in ("llvm-addr2line", "addr2line"):
            path = os.path.join(programs, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n: >'{self.begun}'\nexec sleep 100000\n")
            os.chmod(path, stat.S_IRWXU)
        path = self.file("""
            import torch.distributed as distributed
            def wrap(module, process_group, options):
                options["broadcast_buffers"], options["init_sync"]
                if distributed.get_rank() == 0:
                    distributed.barrier()
                return module
        """)
        process = self.started(path, "--tier", "sim", "--no-shrink", PATH=programs + ":" + os.environ["PATH"])
        process.send_signal(signal.SIGINT)
        status, said = self.finish(process)
        self.assertEqual(status, INTERRUPTED, said)
        self.assertEqual(self.left_running(path), [])

    def test_ctrl_c_while_the_file_is_imported_ends_the_program_as_any_other(self):
        path = self.file(f"""
            import time
            open({self.begun!r}, "a").close()
            time.sleep(10**6)
        """)
        process = self.started(path)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process), (-signal.SIGINT, ""))


@unittest.skipIf(MISSING, MISSING)
class Killed(OfRun):
    def test_a_runner_that_is_killed_leaves_no_process(self):
        for tier, how in (("sim", HANGS["in C with the interpreter's lock"]), ("warm", HANGS["in C"]), ("cold", ONE_HANGS)):
            with self.subTest(tier=tier):
                if os.path.exists(self.begun):
                    os.remove(self.begun)
                path = self.hanging(how)
                process = self.started(path, "--tier", tier)
                self.assertGreater(len(self.left_running(path)), 1)
                process.kill()
                process.wait()
                self.wait_until(lambda: self.left_running(path) == [])


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        raise SystemExit("LOCKSTEP=%s names no program" % PROGRAM)
    unittest.main()

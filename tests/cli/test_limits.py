"""A machine that gives little: a sentence with what to raise, and exit code 2."""

import os
import resource
import shutil
import subprocess
import unittest

from program_case import PATIENCE_S, PROGRAM, ProgramCase

NOBODY = 54_321  # A user that runs nothing else.


class Limits(ProgramCase):
    def finish_with(self, prepare, *arguments, **environment):
        """Exit status, stdout and stderr of a program that `prepare` makes ready."""
        return self.finish(subprocess.Popen(
            [PROGRAM, *arguments], cwd=self.folder, env={**self.environment, **environment}, preexec_fn=prepare,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def assert_reported(self, finished, *parts):
        status, _, err = finished
        self.assertEqual((status, err.count("\n")), (2, 1), finished)
        self.assertNotIn("internal error", err)
        for part in parts:
            self.assertIn(part, err)

    def test_open_files(self):
        def prepare(most):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

        for command in (["run", "toys.hold"], ["launch", "-n", "2", "true"]):
            self.assert_reported(self.finish_with(prepare(8), *command), "open files", "ulimit -")
        for most in (10, 13, 16, 20):
            status, out, err = self.finish_with(prepare(most), "run", "toys.bare", "-j", "2")
            self.assertIn(status, (0, 2, 3), (most, out, err))
            self.assertNotIn("internal error", err)
            if status != 0:
                self.assertIn("(ulimit -n)", out + err)

    def test_file_sizes(self):
        told = self.finish_with(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), "run", "--tier", "cold", "toys.hold")
        self.assert_reported(told, "File too large", "--out FOLDER")

    @unittest.skipIf(os.getuid() != 0, "only root can be another user")
    def test_processes(self):
        def prepare(most):
            def become():
                resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            return become

        for path in (self.folder, self.temporary):
            os.chmod(path, 0o777)
        try:
            self.finish_with(prepare(1000), "list")
        except PermissionError:
            self.skipTest("another user cannot run " + PROGRAM)
        self.assert_reported(self.finish_with(prepare(6), "run", "toys.hold", "-j", "32"), "(ulimit -u)")
        for most in (2, 5, 8, 12):
            status, out, err = self.finish_with(prepare(most), "run", "toys.bare", "-j", "8")
            self.assertIn(status, (0, 2, 3), (most, out, err))
            self.assertNotIn("internal error", err)
            if status == 2:
                self.assertIn("(ulimit -u)", err)

    def test_address_space(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))

        if self.finish_with(prepare, "list")[0] != 0:
            self.skipTest("this build cannot start in so little")
        self.assert_reported(self.finish_with(prepare, "run", "toys.hold"), "(ulimit -v)")

    def test_no_proc(self):
        hide = "mount -t tmpfs tmpfs /proc && exec \"$0\" run toys.hold"
        unshare = shutil.which("unshare")
        if not unshare or subprocess.run([unshare, "-m", "mount", "-t", "tmpfs", "tmpfs", "/proc"],
                                         stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("this user cannot hide /proc")
        done = subprocess.run([unshare, "-m", "sh", "-c", hide, PROGRAM], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assert_reported((done.returncode, done.stdout, done.stderr), "/proc")

    def test_an_empty_name_of_a_temporary_folder_is_none(self):
        self.assertEqual(self.run_program("run", "toys.hold", TMPDIR="")[0], 0)

    def test_a_temporary_folder_that_is_not_there(self):
        for command in (["run", "toys.hold"], ["launch", "-n", "2", "true"]):
            self.assert_reported(self.run_program(*command, TMPDIR="/no/such"), "TMPDIR is /no/such", "set TMPDIR")
        self.assertFalse(os.path.exists(self.path()))

    def test_a_working_folder_that_was_deleted(self):
        for command in ("run toys.hold", "list", "launch -n 2 true", "--help"):
            gone = os.path.join(self.folder, "gone")
            os.mkdir(gone)
            done = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$0" ' + command, PROGRAM, gone],
                                  env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
            self.assert_reported((done.returncode, done.stdout, done.stderr), "the working folder has been deleted")

    def test_a_folder_in_path_that_may_not_be_looked_into(self):
        if os.getuid() != 0:
            self.skipTest("only root can be another user")
        closed = os.path.join(self.folder, "closed")
        os.mkdir(closed, 0o700)
        os.chmod(self.folder, 0o777)
        os.chmod(self.temporary, 0o777)

        def become():
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        try:
            finished = self.finish_with(become, "launch", "-n", "1", "true", PATH=closed + ":" + os.environ["PATH"])
        except PermissionError:
            self.skipTest("another user cannot run " + PROGRAM)
        self.assertEqual(finished[0], 0, finished)


class Scratch(ProgramCase):
    """Checks Lockstep's own program, whose scenarios about checkpoints write files."""

    def run_with_tmpfs(self, options, tier):
        unshare = shutil.which("unshare")
        mount = 'mount -t tmpfs -o %s tmpfs "$1"' % options
        if not unshare or subprocess.run([unshare, "-m", "sh", "-c", mount, "sh", self.temporary], stderr=subprocess.DEVNULL,
                                         check=False).returncode != 0:
            self.skipTest("this user cannot mount a small disk")
        run = mount + ' && exec "$0" run checkpoint.resume --cases 3 --seed 7 --tier ' + tier
        done = subprocess.run([unshare, "-m", "sh", "-c", run, PROGRAM, self.temporary], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("INCONCLUSIVE", done.stdout)
        self.assertFalse(os.path.exists(self.path("failures")))
        return " ".join(done.stdout.split())

    def test_a_full_disk_is_no_failure_of_the_subject(self):
        for tier in ("sim", "warm", "cold"):
            text = self.run_with_tmpfs("size=4k", tier)
            self.assertRegex(text, r"had no room: it has [\d,]+ bytes left in \S.*, the folder for temporary files: set TMPDIR to "
                                   r"one with room \(.*No space left")

    def test_a_disk_without_room_for_another_file_is_none_either(self):
        text = self.run_with_tmpfs("size=4m,nr_inodes=6", "cold")
        self.assertRegex(text, r"had no room: it has \d+ files left in \S.*, the folder for temporary files: set TMPDIR to one with room")

    def test_a_disk_without_room_for_a_folder_is_none_either(self):
        text = self.run_with_tmpfs("nr_inodes=1", "sim")
        self.assertIn("had no room: no folder could be made (No space left on device) in ", text)


if __name__ == "__main__":
    unittest.main()

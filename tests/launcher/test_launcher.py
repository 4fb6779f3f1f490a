"""Checks what ./lockstep promises: see launcher_case.py for how it is watched."""

import os
import pty
import shutil
import signal
import subprocess
import unittest

from launcher_case import ROOT, Launcher


class HandingOver(Launcher):
    def test_the_first_start_sets_everything_up_and_runs_the_program(self):
        result = self.launch("run")
        self.assert_ran(result)
        self.assertEqual(result.out, self.folder + "\n<run>\n")
        steps = [call.split()[0] for call in self.calls()]
        for tool in ("dpkg-query", "python", "cmake", "ninja"):
            self.assertIn(tool, steps)
        self.assertNotIn("apt-get", steps)

    def test_the_second_start_does_no_set_up_and_says_nothing(self):
        self.launch("run")
        self.calls()
        result = self.launch("run")
        self.assert_ran(result)
        self.assertEqual(result.err, "")
        self.assertEqual([call.split()[0] for call in self.calls()], ["dpkg-query", "ninja"])

    def test_arguments_arrive_as_they_were_given(self):
        arguments = ["run", "a b", "", "--set", "k=*", "$HOME", "'\"", "-n"]
        result = self.launch(*arguments)
        self.assertEqual(result.out.splitlines()[1:], [f"<{argument}>" for argument in arguments])

    def test_the_exit_code_is_the_programs_own(self):
        self.assertEqual(self.launch("run", PROGRAM_EXIT="77").status, 77)

    def test_a_link_to_the_launcher_finds_its_tree(self):
        link = os.path.join(self.folder, "a link")
        os.symlink(self.in_tree("lockstep"), link)
        result = self.result_of([link, "run"], cwd=self.folder)
        self.assert_ran(result)

    def test_help_needs_no_set_up(self):
        result = self.launch("--help")
        self.assertEqual(result.status, 0)
        self.assertIn("./lockstep test", result.out)
        self.assert_refused(self.launch(), "./lockstep test")
        self.assertEqual(self.launch("test", "--help").status, 0)
        self.assertEqual(self.calls(), [])

    def test_help_of_a_built_tree_is_the_programs(self):
        self.launch("build")
        self.assertIn("<--help>", self.launch("--help").out)

    def test_setup_and_build_stop_where_their_names_say(self):
        self.assert_ran(self.launch("setup"))
        self.assertTrue(os.path.exists(self.in_tree(".venv", "torch")))
        self.assertFalse(os.path.exists(self.in_tree("build", "release")))
        result = self.launch("build")
        self.assert_ran(result)
        self.assertEqual(result.out, "")
        self.assertTrue(os.path.exists(self.in_tree("build", "release", "cli", "lockstep")))

    def test_test_hands_over_to_ctest(self):
        result = self.launch("test", "-R", "a b")
        self.assert_ran(result)
        lines = result.out.splitlines()
        self.assertEqual(lines[:2], ["--test-dir", self.in_tree("build", "release")])
        self.assertLessEqual({"--output-on-failure", "--no-tests=error"}, set(lines))
        self.assertEqual(lines[-5:-1], ["-R", "a b", "-LE", "nightly"])
        self.assertEqual(lines[-1], "100% tests passed, 0 tests failed out of 3")
        self.assertNotIn("-LE", self.launch("test", "-L", "nightly").out.splitlines())
        self.tell("ctest_fails")
        self.assertEqual(self.launch("test").status, 8)

    def test_the_preset_is_chosen_by_a_variable(self):
        self.assert_ran(self.launch("build", LOCKSTEP_PRESET="ci"))
        self.assertTrue(os.path.exists(self.in_tree("build", "ci", "cli", "lockstep")))
        self.assert_refused(self.launch("build", LOCKSTEP_PRESET="../x"), "no name of a preset")

    def test_ci_runs_the_command_and_the_preset_that_the_readme_gives_and_then_tries_the_package(self):
        shutil.copytree(os.path.join(ROOT, ".ci"), self.in_tree(".ci"))
        os.makedirs(self.in_tree("tests", "python"))
        os.symlink("/bin/pwd", self.in_tree("tests", "python", "try_package"))
        result = self.result_of([self.in_tree(".ci", "run")], cwd=self.folder)
        self.assert_ran(result)
        self.assertEqual(result.out.splitlines()[1], self.in_tree("build", "release"))
        self.assertEqual(result.out.splitlines()[-1], self.tree)
        self.tell("ctest_fails")
        self.assertEqual(self.result_of([self.in_tree(".ci", "run")], cwd=self.folder).status, 8)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
            self.assertIn("`./lockstep test` builds everything and runs the test suite", readme.read())


class Packages(Launcher):
    LINE = "sudo apt-get update && sudo apt-get install --yes --no-install-recommends cmake libgloo-dev\n"

    def setUp(self):
        super().setUp()
        self.tell("missing", "cmake\nlibgloo-dev\n")

    def test_root_installs_exactly_what_is_missing(self):
        self.assert_ran(self.launch("run"))
        install = [call for call in self.called("apt-get") if " install " in call]
        self.assertEqual(len(install), 1)
        self.assertTrue(install[0].endswith("--no-install-recommends cmake libgloo-dev"))

    def test_without_root_and_sudo_there_is_one_line_to_run(self):
        self.tell("not_root")
        self.tell("no_sudo")
        self.assert_refused(self.launch("run"), "only root may install", self.LINE)
        self.assertEqual(self.called("apt-get"), [])

    def test_sudo_is_used_where_it_asks_for_no_password(self):
        self.tell("not_root")
        self.assert_ran(self.launch("run"))

    def test_a_broken_source_is_no_reason_to_stop(self):
        self.tell("apt_update_fails")
        result = self.launch("run")
        self.assert_ran(result)
        self.assertIn("apt-get update failed", result.err)

    def test_a_failed_install_says_so_and_heals(self):
        self.tell("apt_install_fails")
        result = self.launch("run")
        self.assert_refused(
            result, "could not install the packages", "Unable to fetch", "build/logs/apt-install.log")
        self.untell("apt_install_fails")
        self.assert_ran(self.launch("run"))


class Venv(Launcher):
    def assert_whole(self):
        self.assertTrue(os.path.exists(self.in_tree(".venv", "torch")))
        self.assertFalse(os.path.exists(self.in_tree(".venv", "half_of_torch")))

    def test_a_half_made_venv_is_made_anew(self):
        os.makedirs(self.in_tree(".venv", "bin"))
        left_over = self.in_tree(".venv", "left over")
        with open(left_over, "w", encoding="utf-8") as file:
            file.write("half a library")
        self.assert_ran(self.launch("run"))
        self.assert_whole()
        self.assertFalse(os.path.exists(left_over))

    def test_other_requirements_make_it_anew_and_other_comments_do_not(self):
        self.launch("run")
        self.calls()
        with open(self.in_tree("requirements.txt"), "a", encoding="utf-8") as file:
            file.write("\n# a comment\n")
        self.launch("run")
        self.assertEqual(self.called("python"), [])
        with open(self.in_tree("requirements.txt"), "a", encoding="utf-8") as file:
            file.write("another==1.0\n")
        self.assert_ran(self.launch("run"))
        calls = self.calls()
        self.assertTrue([call for call in calls if " -m pip install " in call])
        self.assertIn("cmake --preset release -U LOCKSTEP_TORCH", calls)

    def test_a_failed_download_says_so_and_heals(self):
        self.tell("pip_fails", "ERROR: Could not find a version\n")
        result = self.launch("run")
        self.assert_refused(result, "pip could not install LibTorch", "Could not find a version",
                            "Check the network", "build/logs/pip.log")
        self.assertFalse(os.path.exists(self.in_tree(".venv")))
        self.untell("pip_fails")
        self.assert_ran(self.launch("run"))
        self.assert_whole()

    def test_a_disk_that_fills_up_is_named(self):
        self.tell("pip_fails", "OSError: [Errno 28] No space left on device\n")
        self.assert_refused(self.launch("run"), "The disk ran full; 8000 MB are free now")

    def test_too_little_disk_is_refused_before_anything_is_fetched(self):
        self.tell("free_kb", str(1500 * 1024))
        self.tell("missing", "cmake\n")
        self.assert_refused(self.launch("run"), "needs 3000 MB of disk, and 1500 MB are free")
        self.assertEqual([call for call in self.calls() if not call.startswith("df")], [])

    def test_a_python_that_will_not_do_is_named(self):
        self.tell("old_python")
        self.assert_refused(self.launch("run"), "needs Python 3.10 to 3.13", "is Python 3.9.2")
        self.untell("old_python")
        self.tell("no_ensurepip")
        self.assert_refused(self.launch("run"), "has no ensurepip: install its venv package")

    def test_an_interrupt_leaves_nothing_that_breaks_the_next_call(self):
        process = self.start_and_stop_in_pip("run")
        os.killpg(process.pid, signal.SIGINT)
        said = self.ended(process)
        self.assertEqual(said.status, 130)
        self.assertIn("interrupted; the next call continues from here", said.err)
        for name in ("pip_waits", "pip_has_begun"):
            self.untell(name)
        self.assert_ran(self.launch("run"))
        self.assert_whole()

    def test_a_second_launcher_waits_for_the_first(self):
        first = self.start_and_stop_in_pip("run")
        second = self.launching("run")
        self.assertIn("waiting for it", second.stderr.readline())
        # Half a second to do wrong in. It only makes a mistake likelier to be seen: one that waits
        # passes however slow the machine is.
        with self.assertRaises(subprocess.TimeoutExpired):
            second.wait(timeout=0.5)
        before = self.calls()
        self.assertEqual(len([call for call in before if call.startswith("dpkg-query")]), 1)
        self.let_pip_go_on()
        for process in (first, second):
            self.assert_ran(self.ended(process))
        installs = [call for call in before + self.calls() if " -m pip install " in call]
        self.assertEqual(len(installs), 1)


class Limits(Launcher):
    def limited(self, *options):
        return self.result_of(["prlimit", *options, self.in_tree("lockstep"), "run"], cwd=self.folder)

    def test_few_open_files_are_refused_before_anything_is_done(self):
        for most in (5, 8, 10, 63):
            self.assert_refused(self.limited("--nofile=%d" % most), "open files", "(ulimit -n 64)")
        self.assertEqual(self.calls(), [])
        self.assert_ran(self.limited("--nofile=64"))

    def test_little_memory_is_refused_before_anything_is_done(self):
        self.assert_refused(self.limited("--data=51200000"), "50000 KiB are allowed", "(ulimit -d 131072)")
        self.assert_refused(self.limited("--as=409600000"), "400000 KiB are allowed", "(ulimit -v 524288)")
        self.assertEqual(self.calls(), [])
        self.assert_ran(self.limited("--data=%d" % (128 << 20), "--as=%d" % (512 << 20)))

    @unittest.skipIf(os.getuid() != 0, "only root can be another user")
    def test_few_processes_are_refused_before_anything_is_done(self):
        other = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "bash"]
        os.chmod(self.folder, 0o755)
        for most in (1, 3, 31):
            self.assert_refused(self.limited("--nproc=%d" % most, *other), "%d are allowed" % most, "(ulimit -u 32)")
        self.assertEqual(self.calls(), [])

    def test_a_working_folder_that_was_deleted_is_named(self):
        gone = os.path.join(self.folder, "gone")
        os.mkdir(gone)
        self.assert_refused(self.result_of(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$0" run', self.in_tree("lockstep"),
                                       gone]), "the working folder has been deleted")
        self.assertEqual(self.calls(), [])


class Building(Launcher):
    def test_a_failed_configure_says_so_and_heals(self):
        self.tell("cmake_fails")
        self.assert_refused(self.launch("run"), "could not configure the preset release",
                            "no such thing", "build/logs/configure-release.log")
        self.untell("cmake_fails")
        self.assert_ran(self.launch("run"))

    def test_a_compile_error_is_shown_whole_and_ends_the_start(self):
        self.tell("ninja_fails", "FAILED: reducer.o\nreducer.cpp:3:1: error: what is this\n")
        result = self.launch("run")
        self.assert_refused(result, "reducer.cpp:3:1: error: what is this\n", "the build failed",
                            "build/logs/build-release.log")
        self.assertNotIn("Building ddp/reducer/reducer.cpp", result.err)

    def test_a_compiler_killed_for_memory_is_named(self):
        self.tell("ninja_fails", "g++: fatal error: Killed signal terminated program cc1plus\n")
        self.assert_refused(self.launch("run"), "want of memory")

    def test_a_moved_tree_is_configured_anew(self):
        self.launch("build")
        moved = os.path.join(self.folder, "moved")
        os.rename(self.tree, moved)
        self.tree = moved
        self.calls()
        result = self.launch("run")
        self.assert_ran(result)
        self.assertIn("was made for another folder", result.err)
        self.assertEqual(len(self.called("cmake")), 1)

    def test_only_a_terminal_sees_a_line_that_changes(self):
        self.assertNotIn("\r", self.launch("setup").err)
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine has no terminals to give: {error}")
        result = self.result_of([self.in_tree("lockstep"), "run"], cwd=self.folder, stderr=theirs)
        os.close(theirs)
        words = ""
        with open(ours, encoding="utf-8", newline="") as terminal:
            try:
                while line := terminal.readline():
                    words += line
            except OSError:  # How Linux says that nobody holds the other side any more.
                pass
        self.assert_ran(result)
        self.assertIn("\r\033[K[2/2] Linking cli/lockstep", words)


if __name__ == "__main__":
    unittest.main()

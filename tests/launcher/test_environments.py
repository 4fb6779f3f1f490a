"""Checks what ./lockstep setup promises of what it installs on request (--peer, --gpu, --pages), and ./lockstep docs of its
environment: see launcher_case.py for how it is watched."""

import dataclasses
import os
import signal
import unittest

from launcher_case import Launcher


@dataclasses.dataclass
class Kind:
    """One of the options of setup, by its name."""

    option: str
    folder: str  # which holds the libraries
    complete: str  # a file in it that says so
    what: str
    is_there: str  # what the second call says
    pip_options: str
    disk: str  # what it needs beside a build
    looked_for_by_builds: bool

    def marker(self, tree):
        return os.path.join(tree, self.folder, self.complete)


KINDS = (
    Kind("peer", ".venv-peer", ".complete", "PyTorch", ".venv-peer is complete", "", "7600 MB", True),
    Kind("gpu", ".venv", ".complete-gpu", "NVIDIA's libraries", "NVIDIA's libraries are complete in .venv", "--no-deps", "4700 MB", True),
    Kind("pages", ".venv-pages", ".complete", "the driver of a browser", ".venv-pages is complete", "", "300 MB", False),
)


class OnRequest(Launcher):
    def setUp(self):
        super().setUp()
        self.tell("free_kb", str(20000 * 1024))

    def installs(self):
        return [call for call in self.calls() if " -m pip install " in call]

    def of_each_kind(self):
        """Each kind in a tree of its own, in which all that every command needs is built."""
        for kind in KINDS:
            with self.subTest(kind.option):
                self.setUp()
                self.assert_ran(self.launch("build"))
                self.assertFalse(os.path.exists(kind.marker(self.tree)), "nothing else makes it")
                self.assertEqual(len(self.installs()), 1)
                yield kind, ("setup", "--" + kind.option)

    def assert_whole(self, kind):
        self.assertTrue(os.path.exists(kind.marker(self.tree)))
        self.assertTrue(os.path.exists(self.in_tree(kind.folder, "torch")))
        self.assertFalse(os.path.exists(self.in_tree(kind.folder, "half_of_torch")))

    def test_it_is_installed_once_and_a_build_looks_for_what_it_may_use(self):
        for kind, command in self.of_each_kind():
            result = self.launch(*command)
            self.assert_ran(result)
            self.assertEqual(result.out, "")
            self.assert_whole(kind)
            (install,) = self.installs()
            self.assertTrue(install.endswith("/requirements-%s.txt" % kind.option), install)
            self.assertEqual("--no-deps" in install.split(), kind.pip_options == "--no-deps")
            self.assertEqual(os.path.exists(self.in_tree("build", "release", "build.ninja")), not kind.looked_for_by_builds)
            again = self.launch(*command)
            self.assert_ran(again)
            self.assertEqual(again.err, "lockstep: %s\n" % kind.is_there)
            self.assertEqual([call for call in self.calls() if call.startswith(("python", "apt-get"))], [])

    def test_a_failed_download_says_so_leaves_libtorch_whole_and_heals(self):
        for kind, command in self.of_each_kind():
            for said, sentence in (("ERROR: Could not find a version\n", "Check the network"),
                                   ("OSError: [Errno 28] No space left on device\n", "The disk ran full; 20000 MB are free now")):
                self.tell("pip_fails", said)
                self.assert_refused(self.launch(*command), "pip could not install " + kind.what, said, sentence,
                                    "build/logs/pip-%s.log" % kind.option)
            self.assertTrue(os.path.exists(self.in_tree(".venv", ".complete")))
            self.assertEqual(os.path.exists(self.in_tree(kind.folder)), kind.folder == ".venv")
            self.assertFalse(os.path.exists(kind.marker(self.tree)))
            self.untell("pip_fails")
            self.assert_ran(self.launch(*command))
            self.assertTrue(os.path.exists(kind.marker(self.tree)))

    def test_too_little_disk_is_refused_before_anything_is_fetched(self):
        for kind, command in self.of_each_kind():
            self.tell("free_kb", str(200 * 1024))
            self.assert_refused(self.launch(*command), "needs %s of disk, and 200 MB are free" % kind.disk)
            self.assertEqual([call for call in self.calls() if not call.startswith("df")], [])

    def test_an_interrupt_or_other_requirements_make_it_anew(self):
        for kind, command in self.of_each_kind():
            process = self.start_and_stop_in_pip(*command)
            os.killpg(process.pid, signal.SIGINT)
            self.assertEqual(self.ended(process).status, 130)
            for name in ("pip_waits", "pip_has_begun"):
                self.untell(name)
            self.assertFalse(os.path.exists(kind.marker(self.tree)))
            for _ in range(2):
                self.calls()
                self.assert_ran(self.launch(*command))
                self.assertEqual(len(self.installs()), 1)
                self.assert_whole(kind)
                with open(self.in_tree("requirements-%s.txt" % kind.option), "a", encoding="utf-8") as file:
                    file.write("another==1.0\n")

    def test_a_venv_that_is_made_anew_keeps_nvidias_libraries(self):
        self.assert_ran(self.launch("setup", "--gpu"))
        with open(self.in_tree("requirements.txt"), "a", encoding="utf-8") as file:
            file.write("another==1\n")
        self.calls()
        self.assert_ran(self.launch("setup"))
        self.assertEqual(len(self.installs()), 2)
        self.assertTrue(os.path.exists(self.in_tree(".venv", ".complete-gpu")))

    def test_the_browser_comes_with_its_driver_alone(self):
        for options, is_asked_for in (((), False), (("--pages",), True)):
            self.assert_ran(self.launch("setup", *options))
            self.assertEqual(any("chromium" in call for call in self.called("dpkg-query")), is_asked_for)

    def test_several_options_may_be_given_and_another_word_is_refused(self):
        for words in (("--pear",), ("--peer", "x")):
            self.assert_refused(self.launch("setup", *words), "takes --gpu, --peer and --pages and nothing else, not: " + words[-1])
        self.assertEqual(self.calls(), [])
        self.assert_ran(self.launch("setup", "--peer", "--gpu"))
        self.assertEqual(len(self.installs()), 3)


class Docs(Launcher):
    def test_the_site_takes_python_alone_and_its_environment_is_made_once(self):
        self.assert_ran(self.launch("docs", "--out", "there"))
        self.assertEqual([name for name in os.listdir(self.tree) if name.startswith(".venv")], [".venv-docs"])
        calls = self.calls()
        self.assertTrue(any(call.endswith("/requirements-docs.txt") for call in calls))
        self.assertRegex(calls[-1], r"/docs/site/build\.py --program .+/build/release/cli/lockstep --out there$", "for the demonstrations' pages")
        self.assertFalse(any(call.startswith(("apt-get", "cmake", "ninja")) for call in calls))
        self.assert_ran(self.launch("docs"))
        self.assertEqual([call for call in self.calls() if " -m pip install " in call], [])

    def test_a_full_disk_is_said_before_anything_is_installed(self):
        self.tell("free_kb", "1024")
        self.assert_refused(self.launch("docs"), "needs 300 MB of disk", "1 MB are free")
        self.assertFalse(os.path.exists(self.in_tree(".venv-docs")))


if __name__ == "__main__":
    unittest.main()

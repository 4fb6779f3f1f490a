"""Checks what ./lockstep setup --pages promises of .venv-pages and the browser, and ./lockstep docs of .venv-docs: see launcher_case.py for how it is watched."""

import os
import unittest

from launcher_case import Launcher


class Pages(Launcher):
    def installs(self):
        return [call for call in self.calls() if " -m pip install " in call]

    def test_the_driver_and_the_browser_are_installed_for_it_alone(self):
        self.assert_ran(self.launch("setup"))
        self.assertFalse(any("chromium" in call for call in self.calls()))
        self.assertFalse(os.path.exists(self.in_tree(".venv-pages")))
        self.assert_ran(self.launch("setup", "--pages"))
        calls = self.calls()
        self.assertTrue(any("chromium" in call for call in calls if call.startswith("dpkg-query")))
        (install,) = [call for call in calls if " -m pip install " in call]
        self.assertTrue(install.endswith("/requirements-pages.txt"), install)
        self.assertTrue(os.path.exists(self.in_tree(".venv-pages", ".complete")))

    def test_what_is_there_is_not_installed_again_and_no_build_is_made_anew(self):
        self.assert_ran(self.launch("build"))
        self.assert_ran(self.launch("setup", "--pages"))
        self.assertTrue(os.path.exists(self.in_tree("build", "release", "build.ninja")))
        self.calls()
        result = self.launch("setup", "--pages")
        self.assert_ran(result)
        self.assertEqual(result.err, "lockstep: .venv-pages is complete\n")
        self.assertEqual(self.installs(), [])

    def test_a_failed_download_says_so(self):
        self.launch("setup")
        self.tell("pip_fails", "ERROR: Could not find a version\n")
        self.assert_refused(self.launch("setup", "--pages"), "pip could not install the driver of a browser",
                            "Could not find a version", "build/logs/pip-pages.log")
        self.assertFalse(os.path.exists(self.in_tree(".venv-pages")))


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

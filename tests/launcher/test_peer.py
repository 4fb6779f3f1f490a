"""Checks what ./lockstep setup --peer promises of .venv-peer: see launcher_case.py for how it is watched."""

import os
import signal
import unittest

from launcher_case import Launcher


class Peer(Launcher):
    def setUp(self):
        super().setUp()
        self.tell("free_kb", str(16000 * 1024))

    def installs(self):
        return [call for call in self.calls() if " -m pip install " in call]

    def assert_whole(self):
        self.assertTrue(os.path.exists(self.in_tree(".venv-peer", "torch")))
        self.assertFalse(os.path.exists(self.in_tree(".venv-peer", "half_of_torch")))

    def test_it_is_made_beside_venv_with_all_that_pytorch_depends_on(self):
        result = self.launch("setup", "--peer")
        self.assert_ran(result)
        self.assertEqual(result.out, "")
        self.assert_whole()
        ours, peers = self.installs()
        self.assertIn(" --no-deps ", ours)
        self.assertTrue(ours.endswith("/requirements.txt"))
        self.assertNotIn(" --no-deps ", peers)
        self.assertTrue(peers.endswith("/requirements-peer.txt"))
        self.assertFalse(os.path.exists(self.in_tree("build", "release")))

    def test_nothing_else_makes_it(self):
        for command in ("setup", "build", "run"):
            self.assert_ran(self.launch(command))
        self.assertFalse(os.path.exists(self.in_tree(".venv-peer")))
        self.assertEqual(len(self.installs()), 1)

    def test_the_second_call_says_that_it_is_there_and_does_nothing(self):
        self.launch("setup", "--peer")
        self.calls()
        result = self.launch("setup", "--peer")
        self.assert_ran(result)
        self.assertEqual(result.err, "lockstep: .venv-peer is complete\n")
        self.assertEqual([call for call in self.calls() if call.startswith(("python", "apt-get"))], [])

    def test_making_it_leaves_venv_alone_and_every_build_looks_for_it_again(self):
        self.launch("build")
        self.calls()
        ninja = self.in_tree("build", "release", "build.ninja")
        self.assertTrue(os.path.exists(ninja))
        self.assert_ran(self.launch("setup", "--peer"))
        self.assertEqual(len(self.installs()), 1)
        self.assertFalse(os.path.exists(ninja))

    def test_a_half_made_one_and_one_of_other_requirements_are_made_anew(self):
        os.makedirs(self.in_tree(".venv-peer", "bin"))
        self.assert_ran(self.launch("setup", "--peer"))
        self.assert_whole()
        self.calls()
        with open(self.in_tree("requirements-peer.txt"), "a", encoding="utf-8") as file:
            file.write("another==1.0\n")
        self.assert_ran(self.launch("setup", "--peer"))
        self.assertEqual(len(self.installs()), 1)

    def test_a_failed_download_says_so_and_heals(self):
        self.launch("setup")
        self.tell("pip_fails", "ERROR: Could not find a version\n")
        self.assert_refused(self.launch("setup", "--peer"), "pip could not install PyTorch",
                            "Could not find a version", "Check the network", "build/logs/pip-peer.log")
        self.assertFalse(os.path.exists(self.in_tree(".venv-peer")))
        self.assertTrue(os.path.exists(self.in_tree(".venv", "torch")))
        self.untell("pip_fails")
        self.assert_ran(self.launch("setup", "--peer"))
        self.assert_whole()

    def test_a_disk_that_is_too_small_or_fills_up_is_named(self):
        self.launch("build")
        self.tell("free_kb", str(5000 * 1024))
        self.assert_refused(self.launch("setup", "--peer"), "needs 7600 MB of disk, and 5000 MB are free")
        self.tell("free_kb", str(8000 * 1024))
        self.tell("pip_fails", "OSError: [Errno 28] No space left on device\n")
        self.assert_refused(self.launch("setup", "--peer"), "The disk ran full; 8000 MB are free now")

    def test_an_interrupt_leaves_nothing_that_breaks_the_next_call(self):
        self.launch("setup")
        process = self.start_and_stop_in_pip("setup", "--peer")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.ended(process).status, 130)
        for name in ("pip_waits", "pip_has_begun"):
            self.untell(name)
        self.assert_ran(self.launch("setup", "--peer"))
        self.assert_whole()

    def test_a_word_that_setup_does_not_know_is_refused(self):
        self.assert_refused(self.launch("setup", "--pear"), "takes --gpu, --peer and --pages and nothing else, not: --pear")
        self.assert_refused(self.launch("setup", "--peer", "x"), "takes --gpu, --peer and --pages and nothing else, not: x")
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()

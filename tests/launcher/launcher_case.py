"""The launcher as a black box: a copy of it in a temporary folder, every tool it calls replaced.

fakes.sh runs the tools. Nothing here uses the network, installs anything or compiles anything.
"""

import os
import shutil
import signal
import tempfile

from processes import HERE, ROOT, Processes

TOOLS = ("id", "sudo", "dpkg-query", "apt-get", "df", "python", "cmake", "ninja", "ctest")
PROGRAM = """#!/usr/bin/env bash
if [[ -e /proc/$$/fd/9 ]]; then echo 'the lock is still held'; fi
pwd
printf '<%s>\\n' "$@"
exit "${PROGRAM_EXIT:-0}"
"""


class Launcher(Processes):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep launcher ")  # A space, since some have one.
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = os.path.join(self.folder, "tree")
        self.fake = os.path.join(self.folder, "fake")
        bin_folder = os.path.join(self.folder, "bin")
        for folder in (self.tree, self.fake, bin_folder):
            os.mkdir(folder)
        for name in ("lockstep", "packages.txt", "packages-pages.txt", "requirements.txt",
                     "requirements-peer.txt", "requirements-gpu.txt", "requirements-pages.txt", "requirements-docs.txt"):
            shutil.copy(os.path.join(ROOT, name), self.tree)
        shutil.copytree(os.path.join(ROOT, "setup"), self.in_tree("setup"))
        for tool in TOOLS:
            shutil.copy(os.path.join(HERE, "fakes.sh"), os.path.join(bin_folder, tool))
        self.tell("program", PROGRAM)
        os.chmod(os.path.join(self.fake, "program"), 0o755)
        self.tell("free_kb", str(8000 * 1024))
        self.environment = {
            "PATH": bin_folder + ":/usr/bin:/bin",
            "HOME": self.folder,
            "TERM": "xterm",
            "FAKE": self.fake,
            "LOCKSTEP_PYTHON": os.path.join(bin_folder, "python"),
        }

    def tell(self, name, text=""):
        with open(os.path.join(self.fake, name), "w", encoding="utf-8") as file:
            file.write(text)

    def untell(self, name):
        os.remove(os.path.join(self.fake, name))

    def calls(self):
        """The tools called since the last time this was asked, as lines."""
        path = os.path.join(self.fake, "calls")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(path)
        return lines

    def called(self, start):
        return [call for call in self.calls() if call.startswith(start)]

    def in_tree(self, *parts):
        return os.path.join(self.tree, *parts)

    def launch(self, *arguments, **environment):
        return self.ended(self.launching(*arguments, **environment))

    def launching(self, *arguments, **environment):
        """A launcher in a group of its own, as a terminal would start it."""
        return self.start([self.in_tree("lockstep"), *arguments], environment, cwd=self.folder,
                          # Bash cannot trap what its parent ignored, and a test run may be in the background.
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def start_and_stop_in_pip(self, *arguments):
        for name in ("pip_waits", "pip_has_begun"):
            os.mkfifo(os.path.join(self.fake, name))
        process = self.launching(*arguments)
        with open(os.path.join(self.fake, "pip_has_begun"), encoding="utf-8") as file:
            file.read()  # Returns when the fake pip has written to it.
        return process

    def let_pip_go_on(self):
        with open(os.path.join(self.fake, "pip_waits"), "w", encoding="utf-8") as file:
            file.write("go")

    def assert_refused(self, result, *sentences):
        self.assertEqual(result.status, 2, result.err)
        self.assertEqual(result.out, "")
        for sentence in sentences:
            self.assertIn(sentence, result.err)

    def assert_ran(self, result):
        self.assertEqual(result.status, 0, result.err)

#!/usr/bin/env python3
"""Checks what cmake/Peer.cmake decides, on made-up environments.

usage: test_peer.py CMAKE [TEST ...]
"""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSION = "include/torch/headeronly/version.h"


class Peer(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep peer ")  # A space, since some have one.
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.write_version("own", "2", "11")
        self.peer = self.path("peer")
        self.torch = self.path("peer", "lib", "python3.11", "site-packages", "torch")
        self.write_version("peer/lib/python3.11/site-packages/torch", "2", "11")
        self.write("peer/.complete", "torch==2.11.0\n")
        self.write("peer/lib/python3.11/site-packages/torch/version.py",
                   "from typing import Optional\n__version__ = '2.11.0+cu130'\ndebug = False\n")
        self.write("python/Python.h")
        self.write("python/libpython3.so")
        self.write_python(self.path("python"), self.path("python", "libpython3.so"))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text=""):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def write_version(self, folder, major, minor):
        self.write(folder + "/" + VERSION,
                   f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n")

    def write_python(self, include, library):
        self.write("peer/bin/python", f"#!/bin/sh\necho '{include};{library}'\n")
        os.chmod(self.path("peer/bin/python"), 0o755)

    def decide(self, *definitions):
        script = self.path("script.cmake")
        with open(script, "w", encoding="utf-8") as file:
            file.write('cmake_policy(VERSION 3.25)\nset(PROJECT_SOURCE_DIR "%s")\n'
                       'include("%s/cmake/LibTorchTarget.cmake")\ninclude("%s/cmake/Peer.cmake")\n' % (self.folder, ROOT, ROOT))
        result = subprocess.run(
            [CMAKE, "-DLOCKSTEP_TORCH=" + self.path("own"), "-DLOCKSTEP_PEER=" + self.peer, *definitions, "-P", script],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout)
        said = " ".join(result.stdout.split())  # CMake breaks its lines.
        self.assertTrue(said.startswith("-- PyTorch: "), said)
        return said[len("-- PyTorch: "):]

    def test_it_is_built_where_all_is_there(self):
        self.assertEqual(self.decide(), "yes, 2.11.0+cu130 in " + self.torch)

    def test_an_environment_that_is_not_there_or_half_made_names_the_command(self):
        sentence = "no, PyTorch is not installed: ./lockstep setup --peer installs it in .venv-peer"
        os.remove(self.path("peer", ".complete"))
        self.assertEqual(self.decide(), sentence)
        self.peer = self.path("nowhere")
        self.assertEqual(self.decide(), sentence)

    def test_another_release_is_named_with_the_flag_that_builds_with_it(self):
        self.write_version("peer/lib/python3.11/site-packages/torch", "2", "12")
        said = self.decide()
        self.assertIn("is of 2.12 and this program's LibTorch of 2.11", said)
        self.assertIn("-DLOCKSTEP_TORCH=" + self.torch, said)

    def test_python_without_headers_or_shared_library_names_the_package(self):
        for include, library in ((self.path("nowhere"), self.path("python", "libpython3.so")),
                                 (self.path("python"), self.path("python", "libpython3.a")),
                                 (self.path("python"), self.path("nowhere.so"))):
            self.write("python/libpython3.a")
            self.write_python(include, library)
            self.assertIn("./lockstep setup installs them (python3-dev)", self.decide())

    def test_a_python_that_cannot_run_is_no_error_of_the_build(self):
        os.remove(self.path("peer", "bin", "python"))
        self.assertIn("python3-dev", self.decide())

    def test_sanitizers_leave_it_out(self):
        self.assertIn("built with sanitizers (thread)", self.decide("-DLOCKSTEP_SANITIZE=thread"))


if __name__ == "__main__":
    CMAKE = sys.argv.pop(1)
    unittest.main()

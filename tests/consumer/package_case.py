"""A package that is installed into an empty folder, and projects that find it."""

import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from ranks import ENVIRONMENT

BUILD_DEADLINE_S = 900  # Two minutes on two cores; a busy machine takes longer.


def cache_of(build):
    """{name: value} of a build folder's CMakeCache.txt."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        return dict(re.findall(r"^([\w-]+):\w+=(.*)$", file.read(), re.MULTILINE))


def run(command, deadline_s):
    """Exit status and all that it said. It and what it started are gone afterwards."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said = process.communicate(timeout=deadline_s)[0]
    except subprocess.TimeoutExpired:
        raise AssertionError("it did not end in %d s: %s" % (deadline_s, " ".join(command))) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, said


def expect_success(command, deadline_s=BUILD_DEADLINE_S):
    status, said = run(command, deadline_s)
    if status != 0:
        raise AssertionError("exit %d: %s\n%s" % (status, " ".join(command), said))


class PackageCase(unittest.TestCase):
    """A derived class gives `tree_build`, a build folder of this tree, to install_components(). They go into `prefix`; the
    compiler is that folder's. It builds its project in `build`.
    """

    @classmethod
    def install_components(cls, tree_build, *components):
        cls.cache = cache_of(tree_build)
        cls.folder = tempfile.mkdtemp(prefix="lockstep consumer ")  # A space, since some have one.
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = os.path.join(cls.folder, "prefix")
        cls.cmake = cls.cache["CMAKE_COMMAND"]
        for component in components:
            expect_success([cls.cmake, "--install", tree_build, "--prefix", cls.prefix, "--component", component])

    @classmethod
    def configure(cls, source, build, *options):
        return [cls.cmake, "-S", source, "-B", build, "-G", cls.cache["CMAKE_GENERATOR"],
                "-DCMAKE_MAKE_PROGRAM=" + cls.cache["CMAKE_MAKE_PROGRAM"], "-DCMAKE_PREFIX_PATH=" + cls.prefix, *options]

    def find(self, arguments, *options, target="lockstep::ddp"):
        """Exit status and words of a project that does nothing but find_package(lockstep ARGUMENTS)."""
        with tempfile.TemporaryDirectory(dir=self.folder) as source:
            with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.25)\nproject(finds LANGUAGES CXX)\n"
                           "find_package(lockstep %s)\nget_target_property(found %s TYPE)\n" % (arguments, target))
            # The compiler is known to work by now.
            status, said = run(self.configure(source, os.path.join(source, "build"), *options,
                                              "-DCMAKE_CXX_COMPILER=" + self.cache["CMAKE_CXX_COMPILER"],
                                              "-DCMAKE_CXX_COMPILER_WORKS=ON"), BUILD_DEADLINE_S)
            return status, " ".join(said.split())  # CMake breaks its lines.

    def assert_refused(self, found, sentence):
        status, said = found
        self.assertNotEqual(status, 0, said)
        self.assertIn(" ".join(sentence.split()), " ".join(said.split()))

    def test_nothing_leads_back_to_the_tree_but_libtorch(self):
        files = glob.glob(self.prefix + "/lib*/**/*.cmake", recursive=True) + [self.build + "/build.ninja"]
        self.assertGreaterEqual(len(files), 5, files)
        for path in files:
            if os.path.exists(path):  # Other generators write other files.
                with open(path, encoding="utf-8") as file:
                    text = file.read().replace(self.cache["LOCKSTEP_TORCH"], "")
                for tree in (self.cache["CMAKE_HOME_DIRECTORY"], self.cache["CMAKE_CACHEFILE_DIR"]):
                    self.assertNotIn(tree + "/", text, path)

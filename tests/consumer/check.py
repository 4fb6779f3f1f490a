#!/usr/bin/env python3
"""Installs ddp/ and the recorder into an empty folder, builds examples/ against it elsewhere, and trains with them.

usage: check.py BUILD [TEST ...]

BUILD is a build folder of this tree in which lockstep_ddp is built. The compiler is its compiler.
"""

import glob
import os
import re
import shutil
import sys
import tempfile
import unittest

import examples_case
import package_case
import recorded_case
from package_case import expect_success
from ranks import run_ranks, run_world

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")

LINE = re.compile(r"rank (\d+) of (\d+): loss (\S+) -> (\S+), checksum (\S+) -> (\S+)\n")


class Consumer(package_case.PackageCase, examples_case.ExamplesCase, recorded_case.RecordedCase):
    @classmethod
    def setUpClass(cls):
        cls.install_components(BUILD, "ddp", "recorder")

        # A copy, so that nothing that lies beside the examples can help them.
        source, cls.build = os.path.join(cls.folder, "examples"), os.path.join(cls.folder, "build")
        shutil.copytree(EXAMPLES, source)
        sanitize = cls.cache.get("LOCKSTEP_SANITIZE")
        # Optimising would take longer than all that the examples do here.
        expect_success(cls.configure(
            source, cls.build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG",
            "-DCMAKE_CXX_COMPILER=" + cls.cache["CMAKE_CXX_COMPILER"],
            "-DCMAKE_CXX_FLAGS=" + ("-fsanitize=" + sanitize if sanitize else "")))
        expect_success([cls.cmake, "--build", cls.build, "--verbose"])
        cls.program, cls.lockstep = os.path.join(cls.build, "train"), os.path.join(BUILD, "cli", "lockstep")

    def train(self, size):
        """(loss before, loss after, checksum before, checksum after) of each rank."""
        lines = []
        for rank, (status, out, err) in enumerate(run_world(self.program, size)):
            self.assertEqual(status, 0, "rank %d of %d\n%s%s" % (rank, size, out, err))
            line = LINE.fullmatch(out)
            self.assertTrue(line, out)
            self.assertEqual((int(line[1]), int(line[2])), (rank, size))
            print(out, end="")
            lines.append(tuple(float(number) for number in line.groups()[2:]))
        return lines

    def test_two_ranks_train_one_model_and_it_is_that_of_one_process(self):
        first, second = self.train(2)
        self.assertEqual(first[2:], second[2:], "checksums")
        self.assertNotEqual(first[2], first[3], "the model was not trained")
        for rank in (first, second):
            self.assertLess(rank[1], rank[0] / 2, "the loss did not go down")

        # The same seed and batches, each on one process: other roundings, and nothing else.
        alone, = self.train(1)
        self.assertEqual(alone[2], first[2])
        self.assertLess(abs(alone[3] - first[3]), 1e-4 * abs(first[3] - first[2]))

    def test_half_an_environment_is_refused_by_name(self):
        (status, out, err), = run_ranks(self.program, [{"RANK": "0"}])
        self.assertEqual((status, out), (1, ""))
        self.assertIn("lacks WORLD_SIZE, MASTER_ADDR and MASTER_PORT", err)

    def nccl_sentence(self):
        """The error of a program that is to have NCCL where no GPU is visible."""
        (status, out, err), = run_ranks(self.program, [{"CUDA_VISIBLE_DEVICES": ""}], "nccl")
        self.assertEqual((status, out), (1, ""), err)
        self.assertIn("rank 0 cannot take part: it is to carry CUDA tensors over nccl, and cannot: ", err)
        return err

    def test_component_nccl_is_loaded_from_where_it_was_installed_and_named_where_it_lacks(self):
        install = [self.cmake, "--install", BUILD, "--prefix", self.prefix, "--component", "nccl"]
        if not os.path.exists(os.path.join(BUILD, "ddp/backend/nccl/liblockstep_nccl.so")):
            self.assertIn("this Lockstep was built without NCCL (", self.nccl_sentence())
            return
        missing = "liblockstep_nccl.so is neither beside this program nor where its loader looks"
        self.assertIn(missing, self.nccl_sentence())
        self.assert_refused(self.find("REQUIRED COMPONENTS ddp nccl"),
                            "lockstep has no component nccl. It has: ddp, recorder. LOCKSTEP_NCCL=ON builds it, and")
        before = set(glob.glob(self.prefix + "/**", recursive=True))
        expect_success(install)
        try:
            self.assertNotIn("liblockstep_nccl.so", self.nccl_sentence())
            for arguments in ("REQUIRED COMPONENTS ddp nccl", "REQUIRED"):
                status, said = self.find(arguments, target="lockstep::nccl")
                self.assertEqual(status, 0, said)
        finally:
            for path in set(glob.glob(self.prefix + "/**", recursive=True)) - before:
                os.remove(path)

    def test_started_bare_it_trains_as_the_one_rank_of_a_world(self):
        (status, out, err), = run_ranks(self.program, [{}])
        self.assertEqual(status, 0, err)
        line = LINE.fullmatch(out)
        self.assertTrue(line, out)
        self.assertEqual(line.groups()[:2], ("0", "1"))
        self.assertEqual(tuple(float(number) for number in line.groups()[2:]), self.train(1)[0])

    def test_a_project_with_ddp_alone_learns_which_examples_it_lacks(self):
        prefix, build = os.path.join(self.folder, "ddp alone"), os.path.join(self.folder, "examples of ddp alone")
        expect_success([self.cmake, "--install", BUILD, "--prefix", prefix, "--component", "ddp"])
        status, said = package_case.run(
            self.configure(os.path.join(self.folder, "examples"), build, "-DCMAKE_PREFIX_PATH=" + prefix,
                           "-DCMAKE_CXX_COMPILER=" + self.cache["CMAKE_CXX_COMPILER"]), package_case.BUILD_DEADLINE_S)
        self.assertEqual(status, 0, said)
        for missing, component in (("cifar10, reviews and recorded", "recorder"), ("bring_your_own/cpp", "harness")):
            self.assertRegex(said, r"-- Without %s\b.*--component %s adds" % (missing, component))
        with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
            targets = file.read()
        self.assertIn("point_to_point.cpp", targets)
        self.assertNotIn("cifar10", targets)

    def test_what_is_installed_is_found_without_components_too(self):
        status, said = self.find("REQUIRED")
        self.assertEqual(status, 0, said)

    def test_an_unknown_component_is_refused_by_name(self):
        self.assert_refused(self.find("REQUIRED COMPONENTS ddp flux"),
                            "lockstep has no component flux. It has: ddp, recorder.")

    def test_another_minor_version_is_refused(self):
        self.assert_refused(self.find("99.0 REQUIRED"), 'compatible with requested version "99.0"')

    def test_what_is_no_libtorch_is_refused_by_name(self):
        self.assert_refused(self.find("REQUIRED", "-DLOCKSTEP_TORCH=" + self.prefix),
                            "LOCKSTEP_TORCH=%s holds no include/torch/csrc/api/include/torch/torch.h: "
                            "that is no LibTorch." % self.prefix)

    def test_another_libtorch_than_it_was_compiled_with_is_refused_by_name(self):
        torch = os.path.join(self.folder, "torch")
        for name, text in (("lib/libtorch_cpu.so", ""), ("lib/libc10.so", ""),
                           ("include/torch/csrc/api/include/torch/torch.h", ""),
                           ("include/torch/headeronly/version.h",
                            "#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 13\n")):
            os.makedirs(os.path.dirname(os.path.join(torch, name)), exist_ok=True)
            with open(os.path.join(torch, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.assert_refused(self.find("REQUIRED", "-DLOCKSTEP_TORCH=" + torch),
                            "LOCKSTEP_TORCH=%s is LibTorch 1.13, and this lockstep was compiled with" % torch)

    def test_the_headers_are_all_there_and_need_none_of_gloos(self):
        include = os.path.join(self.prefix, "include", "lockstep")
        headers = glob.glob(include + "/**/*.h", recursive=True)
        self.assertTrue(headers)
        for header in headers:
            with open(header, encoding="utf-8") as file:
                for name in re.findall(r'^#include [<"]([^>"]+)[>"]', file.read(), re.MULTILINE):
                    if name.startswith("ddp/"):
                        self.assertTrue(os.path.exists(os.path.join(include, name)), header + ": " + name)
                    self.assertNotRegex(name, "^gloo/|ProcessGroupGloo", header)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.exists(os.path.join(sys.argv[1], "CMakeCache.txt")):
        sys.exit(__doc__)
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

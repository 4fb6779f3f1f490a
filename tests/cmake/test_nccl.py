#!/usr/bin/env python3
"""Checks what cmake/Nccl.cmake decides, on made-up LibTorches, packages and toolkits.

usage: test_nccl.py CMAKE [TEST ...]
"""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CUDA_HEADERS = ("crt/host_defines.h", "nv/target", "cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h")


class Nccl(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep nccl ")  # A space, since some have one.
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.torch = self.path("site", "torch")
        for name in ("lib/libtorch_cuda.so", "lib/libc10_cuda.so"):
            self.write("site/torch/" + name)
        self.write("site/torch/version.py", "__version__ = '2.11.0+cu130'\n")
        self.write("site/torch-2.11.0.dist-info/METADATA", "Requires-Dist: filelock\n"
                   'Requires-Dist: nvidia-nccl-cu13==2.28.9; platform_system == "Linux"\n')

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text=""):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def write_nccl(self, folder, version="2.28.9"):
        self.write(folder + "/nccl.h", "#define NCCL_MAJOR %s\n#define NCCL_MINOR %s\n#define NCCL_PATCH %s\n"
                   "#define NCCL_SUFFIX \"\"\n" % tuple(version.split(".")))

    def write_cuda(self, folder, version="13000", headers=CUDA_HEADERS):
        self.write(folder + "/cuda_runtime_api.h", "#define CUDART_VERSION  %s\n" % version)
        for header in headers:
            self.write(folder + "/" + header)

    def decide(self, *definitions):
        """(exit status, what it said), with the toolkit of this test's folder as the only one."""
        script = self.path("script.cmake")
        with open(script, "w", encoding="utf-8") as file:
            file.write('cmake_policy(VERSION 3.25)\nset(CMAKE_SYSTEM_PROCESSOR x86_64)\n'
                       'include("%s/cmake/LibTorchTarget.cmake")\ninclude("%s/cmake/Nccl.cmake")\n' % (ROOT, ROOT))
        result = subprocess.run(
            [CMAKE, "-DLOCKSTEP_TORCH=" + self.torch, "-Dlockstep_toolkits=" + self.path("toolkit"), *definitions,
             "-P", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        return result.returncode, " ".join(result.stdout.split())  # CMake breaks its lines.

    def assert_said(self, decided, sentence):
        status, said = decided
        self.assertEqual(status, 0, said)
        self.assertEqual(said, "-- NCCL: " + sentence)

    def assert_refused(self, decided, *sentences):
        status, said = decided
        self.assertNotEqual(status, 0, said)
        for sentence in sentences:
            self.assertIn(sentence, said)

    def test_the_packages_beside_the_wheel_are_enough(self):
        self.write_nccl("site/nvidia/nccl/include")
        self.write_cuda("site/nvidia/cu13/include")
        found = "yes, nccl.h 2.28.9 from %s, CUDA headers from %s" % (
            self.path("site/nvidia/nccl/include"), self.path("site/nvidia/cu13/include"))
        self.assert_said(self.decide(), found)
        self.assert_said(self.decide("-DLOCKSTEP_NCCL=ON"), found)

    def test_a_toolkit_is_enough(self):
        self.write_nccl("toolkit/include")
        self.write_cuda("toolkit/targets/x86_64-linux/include")
        self.assert_said(self.decide("-DLOCKSTEP_NCCL=ON"), "yes, nccl.h 2.28.9 from %s, CUDA headers from %s" % (
            self.path("toolkit/include"), self.path("toolkit/targets/x86_64-linux/include")))

    def test_folders_that_are_named_come_first(self):
        for folder in ("site/nvidia/nccl/include", "mine"):
            self.write_nccl(folder)
        for folder in ("site/nvidia/cu13/include", "mine"):
            self.write_cuda(folder)
        mine = self.path("mine")
        self.assert_said(self.decide("-DLOCKSTEP_NCCL_INCLUDE=" + mine, "-DLOCKSTEP_CUDA_INCLUDE=" + mine),
                         "yes, nccl.h 2.28.9 from %s, CUDA headers from %s" % (mine, mine))

    def test_a_folder_that_is_named_and_lacks_the_header_is_refused(self):
        self.write_nccl("toolkit/include")
        self.write_cuda("toolkit/include")
        for variable, header in (("LOCKSTEP_NCCL_INCLUDE", "nccl.h"), ("LOCKSTEP_CUDA_INCLUDE", "cuda_runtime_api.h")):
            self.assert_refused(self.decide("-D%s=%s" % (variable, self.path("mine"))),
                                "%s=%s: that folder holds no %s." % (variable, self.path("mine"), header))

    def test_where_nothing_is_there_it_is_left_out_with_the_reason_and_refused_where_it_was_asked_for(self):
        reason = ("no nccl.h of 2.28.9, which this LibTorch was compiled with (./lockstep setup --gpu installs what "
                  "is needed; or install a CUDA toolkit; or pass -DLOCKSTEP_NCCL_INCLUDE=FOLDER)")
        self.assert_said(self.decide(), "no, " + reason)
        self.assert_refused(self.decide("-DLOCKSTEP_NCCL=ON"),
                            "LOCKSTEP_NCCL=ON, and NCCL cannot be built in: " + reason + ".")

    def test_another_minor_version_of_nccl_is_refused_and_another_patch_is_not(self):
        self.write_cuda("toolkit/include")
        self.write_nccl("toolkit/include", "2.27.7")
        self.assert_refused(self.decide("-DLOCKSTEP_NCCL=ON"), "no nccl.h of 2.28.9",
                            "and that of %s is of 2.27.7" % self.path("toolkit/include"))
        self.write_nccl("toolkit/include", "2.28.3")
        self.assertIn("yes, nccl.h 2.28.3", self.decide()[1])

    def test_a_folder_of_headers_that_lacks_some_is_named_with_them(self):
        self.write_nccl("site/nvidia/nccl/include")
        self.write_cuda("site/nvidia/cu13/include", headers=("crt/host_defines.h", "nv/target"))
        self.assert_refused(self.decide("-DLOCKSTEP_NCCL=ON"), "no folder with all headers of CUDA 13; ",
                            "lacks cublas_v2.h, cublasLt.h, cusparse.h, cusolverDn.h",
                            "or pass -DLOCKSTEP_CUDA_INCLUDE=FOLDER")

    def test_headers_of_another_cuda_are_refused(self):
        self.write_nccl("toolkit/include")
        self.write_cuda("toolkit/include", version="12080")
        self.assert_refused(self.decide("-DLOCKSTEP_NCCL=ON"), "%s is of CUDA 12" % self.path("toolkit/include"))

    def test_a_libtorch_for_the_cpu_alone_says_so(self):
        os.remove(self.path("site/torch/lib/libtorch_cuda.so"))
        self.assert_said(self.decide(), "no, this LibTorch holds no lib/libtorch_cuda.so: it is one for the CPU alone")

    def test_off_is_off_though_all_is_there(self):
        self.write_nccl("toolkit/include")
        self.write_cuda("toolkit/include")
        self.assert_said(self.decide("-DLOCKSTEP_NCCL=OFF"), "no, LOCKSTEP_NCCL is OFF")

    def test_another_word_than_on_and_off_is_refused(self):
        self.assert_refused(self.decide("-DLOCKSTEP_NCCL=maybe"),
                            "LOCKSTEP_NCCL=maybe: expected ON, OFF or nothing, which is where it can be built.")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CMAKE = sys.argv.pop(1)
    unittest.main(verbosity=2)

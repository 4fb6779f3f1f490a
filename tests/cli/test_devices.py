"""The devices of worlds, and what the report and the doctor say of them."""

import glob
import os
import re
import subprocess
import sys
import unittest

from program_case import PATIENCE_S, PROGRAM, ProgramCase

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Devices(ProgramCase):
    """Checks the simulated accelerator, which has as many devices as a variable says."""
    def backend(self, count, *arguments):
        return self.run_program("run", "--backend", "accelerator", *arguments, LOCKSTEP_ACCELERATORS=count)

    def test_worlds_larger_than_the_number_of_devices_are_said_to_share_them(self):
        for count, sentence in (("1", "worlds of 2-4 share 1 simulated device: judged as ever, never timed\n"),
                                ("3", "worlds of 4 share 3 simulated devices: judged as ever, never timed\n")):
            for tier in ("cold", "warm"):
                with self.subTest(count=count, tier=tier):
                    status, out, _ = self.backend(count, "toys.bare", "toys.hold", "--world", "1,2,3,4", "--cases", "12",
                                                  "--tier", tier)
                    self.assertEqual((status, out.splitlines(keepends=True)[1]), (0, sentence))
                    self.assertRegex(out, r"PASS +– +toys.hold")
                    self.assertEqual(self.latest()["shared_devices"][0]["count"], int(count))

    def test_worlds_with_a_device_a_rank_are_timed_as_any(self):
        for count in ("4", ""):
            status, out, _ = self.backend(count, "toys.hold", "--world", "1,2,4")
            self.assertEqual((status, self.latest()["shared_devices"]), (0, []))
            self.assertNotIn("share", out)
            self.assertRegex(out, r"PASS +[0-9.]+s +toys.hold")

    def test_a_number_of_devices_that_is_none_is_refused(self):
        for count in ("0", "17", "two", "2x"):
            status, _, err = self.backend(count, "toys.hold")
            self.assertEqual(status, 2)
            self.assertIn("LOCKSTEP_ACCELERATORS is '%s', expected a number from 1 to 16" % count, err)

    def test_a_report_of_runs_on_shared_devices_says_so_too(self):
        self.backend("1", "toys.hold", "--world", "2")
        status, out, _ = self.run_program("report", self.path())
        self.assertEqual(status, 0)
        self.assertIn("worlds of 2 share 1 simulated device: judged as ever, never timed\n", out)


class Asking(ProgramCase):
    def facts(self, **variables):
        environment = {**os.environ, **variables}
        text = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True, env=environment, check=True,
                              timeout=PATIENCE_S).stdout
        return dict(re.findall(r"(?m)^    (\S.{13}) (.*)$", text))


class Doctor(Asking):
    def test_each_backend_is_there_or_why_it_is_not(self):
        facts = {name.strip(): what for name, what in self.facts(LD_LIBRARY_PATH="").items()}
        self.assertEqual(facts["gloo"], "yes")
        self.assertTrue(facts["mpi, tcp"].startswith("no: Lockstep has no such backends"))
        self.assertIn("epoll_wait and getnameinfo", facts["libc"])
        self.assertRegex(facts["nccl"], r"^2\.\d+\.\d+ \(|^no: this Lockstep was built without NCCL \(.+\)$|"
                         r"^no: LibTorch's CUDA part cannot be loaded \(.+\): the libraries of NVIDIA that LibTorch "
                         "needs are not installed$")
        self.assertRegex(facts["pytorch"], "^no: this program has no such subject$")


def skip_class(reason):
    print("skipped: " + reason)
    sys.exit(77)


class DoctorWithLibraries(Asking):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.path.exists("/dev/nvidiactl"):
            skip_class("this machine has a GPU")
        cls.folders = [folder for venv in (".venv", ".venv-peer")
                       for folder in glob.glob(os.path.join(ROOT, venv, "lib/python3*/site-packages/nvidia/*/lib"))]
        if not any(glob.glob(folder + "/libcudnn.so.*") for folder in cls.folders):
            skip_class("NVIDIA's libraries are in neither .venv nor .venv-peer")

    def test_it_is_the_gpu_that_lacks(self):
        facts = {name.strip(): what for name, what in self.facts(LD_LIBRARY_PATH=":".join(self.folders)).items()}
        if facts["nccl"].startswith("no: this Lockstep was built without NCCL"):
            skip_class(facts["nccl"])
        self.assertRegex(facts["nccl"], r"^2\.\d+\.\d+ \(nccl\.h 2\.")
        self.assertEqual(facts["gpus"], "none: this machine has no NVIDIA GPU, or no driver for it")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Installs the harness alone into an empty folder, builds examples/bring_your_own/cpp against it elsewhere, and judges the
data-parallel code of that project with the program that it makes.

usage: judges.py BUILD [TEST ...]

BUILD is a build folder of this tree in which lockstep_harness is built. The compiler is its compiler.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import package_case
from package_case import BUILD_DEADLINE_S, expect_success, run
from ranks import ENVIRONMENT

DEADLINE_S = 300  # Each takes a few seconds; a busy machine takes longer.
HELD, FAILED, USAGE, ALL_SKIPPED = 0, 1, 2, 77
WITHOUT_TORCH = ("harness/base/", "harness/worlds/options.h")  # Of the public headers: checked in a moment.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = os.path.join(ROOT, "examples/bring_your_own/cpp/README.md")


def said_by(*command, folder):
    """(exit status, output)"""
    ended = subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
    return ended.returncode, ended.stdout


class Judges(package_case.PackageCase):
    @classmethod
    def setUpClass(cls):
        cls.install_components(BUILD, "harness")
        # A copy, so that nothing that lies beside the example can help it.
        source, cls.build = os.path.join(cls.folder, "own"), os.path.join(cls.folder, "build")
        shutil.copytree(os.path.dirname(README), source)
        sanitize = cls.cache.get("LOCKSTEP_SANITIZE")
        # Optimising would take longer than all that the program does here.
        expect_success(cls.configure(source, cls.build, "-DCMAKE_CXX_COMPILER=" + cls.cache["CMAKE_CXX_COMPILER"],
                                     "-DCMAKE_CXX_FLAGS=" + ("-fsanitize=" + sanitize if sanitize else "")))
        expect_success([cls.cmake, "--build", cls.build, "--verbose"])
        cls.judged = os.path.join(cls.build, "judged")

    def judge(self, *arguments):
        """(exit status, {(scenario, tier): result}, what it said) of a run of the program."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            status, said = said_by(self.judged, "run", *arguments, "--seed", "7", "--json", "run.json", folder=folder)
            try:
                with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
                    results = json.load(file)["results"]
            except FileNotFoundError:
                self.fail(said)
        return status, {(each["scenario"], each["tier"]): each for each in results}, said

    def test_a_correct_class_holds_on_simulated_and_on_forked_worlds(self):
        status, results, said = self.judge("gradients.match", "gradients.undefined", "accumulation.no_sync",
                                           "replicas.start", "--tier", "sim,cold", "--cases", "4")
        self.assertEqual(status, HELD, said)
        self.assertEqual(len(results), 8, said)
        self.assertEqual({result["result"] for result in results.values()}, {"pass"}, said)
        self.assertIn("canary failed as it must", said)

    def test_a_wrong_class_is_caught_made_small_and_fails_again_where_it_is_replayed(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            status, said = said_by(self.judged, *self.commands()["uneven_last_bucket"][1:], "--shrink-time", "120",
                                   folder=folder)
            self.assertEqual(status, FAILED, said)
            self.assertIn("After backward every rank must hold the gradient of one process on the whole batch", said)
            self.assertRegex(said, r"smallest case \(\d+ steps? down")
            for line in self.shown("uneven_last_bucket"):
                if not re.search(r"\d ?s(\b|  )|build/judged", line):  # a time, a path
                    self.assertIn(line.rstrip(), said)
            replay, = re.findall(r"(?m)^  replay +.*judged'? (replay .*)$", said)
            status, again = said_by(self.judged, *replay.split(), folder=folder)
            self.assertEqual(status, FAILED, again)
            self.assertIn("first divergence: step 0, after backward", again)

    def test_a_sampler_alone_is_judged_and_what_it_lacks_is_skipped_with_the_reason(self):
        status, results, said = self.judge("sampler.partitions", "gradients.undefined", "sync_batch_norm.matches",
                                           "--subject", "strided_sampler", "--tier", "sim", "--cases", "4")
        self.assertEqual(status, HELD, said)
        self.assertEqual({name.split(".")[0]: result["result"] for (name, _), result in results.items()},
                         {"sampler": "pass", "gradients": "skip", "sync_batch_norm": "skip"}, said)
        self.assertIn("the subject 'strided_sampler' does not wrap models", said)
        status, _, said = self.judge("gradients.undefined", "--subject", "strided_sampler", "--tier", "sim")
        self.assertEqual(status, ALL_SKIPPED, said)

    def test_an_unknown_subject_is_answered_with_those_of_the_program(self):
        status, said = said_by(self.judged, "run", "--subject", "lockstep", folder=self.folder)
        self.assertEqual(status, USAGE, said)
        self.assertIn("average_after_backward, uneven_last_bucket, strided_sampler", said)

    def test_what_it_loads_for_nccl_is_found_where_it_was_installed(self):
        _, said = said_by(self.judged, "doctor", folder=self.folder)
        self.assertRegex(said, r"(?m)^    nccl  +\S")
        self.assertNotIn("is not where the loader of this program looks", said)

    def test_scenarios_are_tests_of_ctest(self):
        """Their properties, and a run of those that the example registers."""
        ctest = os.path.join(os.path.dirname(self.cmake), "ctest")
        status, said = said_by(ctest, "--test-dir", self.build, "--show-only=json-v1", folder=self.folder)
        self.assertEqual(status, 0, said)
        tests = {test["name"]: {each["name"]: each["value"] for each in test["properties"]}
                 for test in json.loads(said)["tests"]}
        expected = {"gradients.match_single_process": "Passed", "gradients.undefined_counts_as_zero": "Passed",
                    "sampler_alone.sampler.partitions_the_dataset": "Passed",
                    "sampler_alone.gradients.undefined_counts_as_zero": "Skipped",
                    "a_mistake.gradients.match_single_process": "Passed"}
        self.assertEqual(set(tests), set(expected), said)
        properties = tests["gradients.match_single_process"]
        self.assertEqual((properties["LABELS"], properties["PROCESSORS"], properties["SKIP_RETURN_CODE"]),
                         (["core", "gradients"], 2, 77))
        self.assertGreater(properties["TIMEOUT"], 30 * 4)  # A case may take 30 s, and one that hangs is run again.
        self.assertTrue(tests["a_mistake.gradients.match_single_process"]["WILL_FAIL"])

        # All but one, whose scenario another test runs.
        status, said = said_by(ctest, "--test-dir", self.build, "-j2", "-E", "^gradients.match", folder=self.folder)
        self.assertEqual(status, 0, said)
        del expected["gradients.match_single_process"]
        ended = dict(re.findall(r"(?m)^ *\d+/\d+ Test +#\d+: (\S+) \.*[ *]*(Passed|Skipped)", said))
        self.assertEqual(ended, expected, said)

    def test_the_harness_is_a_whole_without_the_library_that_it_might_judge(self):
        for arguments in ("REQUIRED", "REQUIRED COMPONENTS harness OPTIONAL_COMPONENTS ddp",
                          "REQUIRED)\nfind_package(lockstep REQUIRED COMPONENTS harness"):
            status, said = self.find(arguments, target="lockstep::harness")
            self.assertEqual(status, 0, said)
        self.assert_refused(self.find("REQUIRED COMPONENTS ddp harness"),
                            "lockstep has no component ddp. It has: harness. cmake --install BUILD --component ddp "
                            "installs it.")
        self.assert_refused(self.find("REQUIRED COMPONENTS harness", "-DCMAKE_DISABLE_FIND_PACKAGE_rapidcheck=ON"),
                            "lockstep's component harness needs rapidcheck: install nlohmann-json3-dev, "
                            "librapidcheck-dev and libpugixml-dev, or add their folders to CMAKE_PREFIX_PATH.")
        names = subprocess.run(["nm", "-C", self.judged], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("lockstep::Campaign::", names)
        for of_the_library in ("lockstep::Reducer::", "lockstep::DistributedSampler::", "lockstep::init_process_group("):
            self.assertNotIn(of_the_library, names)

    def test_each_public_header_of_the_harness_compiles_alone_and_is_listed(self):
        include = os.path.join(self.prefix, "include")
        headers = sorted(re.sub("^lockstep/(?=harness/)", "", os.path.relpath(path, include))
                         for path in glob.glob(include + "/**/*.h", recursive=True))
        with open(os.path.join(ROOT, "docs/bring_your_own.md"), encoding="utf-8") as page:
            listed = re.findall(r"(?m)^\| `([\w/]+\.h)`", page.read())
        self.assertEqual(sorted(listed), headers)
        for name in headers:
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                source = os.path.join(folder, "alone.cpp")
                with open(source, "w", encoding="utf-8") as file:
                    file.write('#include "%s"\n' % name)
                like = "lockstep_cli.dir" if name.startswith(WITHOUT_TORCH) else "lockstep_harness.dir"
                status, said = run([*self.checks_syntax(like), "-I", include, "-I", os.path.join(include, "lockstep"), source],
                                   BUILD_DEADLINE_S)
                self.assertEqual(status, 0, said)

    def checks_syntax(self, like):
        """The compiler as the tree calls it for this target, with its precompiled header, and none of its folders."""
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
            commands = [each["command"] for each in json.load(file)
                        if like in each["command"] and "cmake_pch.hxx.cxx" not in each["file"]]
        words = shlex.split(commands[0])
        compiler = os.path.basename(self.cache["CMAKE_CXX_COMPILER"])
        first = [os.path.basename(word) for word in words].index(compiler)  # A launcher may stand before it.
        words = words[first:words.index("-o")]
        tree = (self.cache["CMAKE_HOME_DIRECTORY"], self.cache["CMAKE_CACHEFILE_DIR"])
        return [word for word in words if not (word.startswith("-I") and word[2:].startswith(tree))] + ["-fsyntax-only"]

    def test_a_misuse_of_the_function_has_a_sentence(self):
        function, = glob.glob(self.prefix + "/lib*/**/LockstepDiscoverScenarios.cmake", recursive=True)
        script = os.path.join(self.folder, "misuse.cmake")
        for arguments, sentence in (("judged PROCESORS 2", "unknown arguments PROCESORS;2"),
                                    ("judged PROCESSORS 0", "PROCESSORS is '0', expected a whole number from 1"),
                                    ("judged", "there is no target judged")):
            with open(script, "w", encoding="utf-8") as file:
                file.write('include("%s")\nlockstep_discover_scenarios(%s)\n' % (function, arguments))
            self.assert_refused(run([self.cmake, "-P", script], DEADLINE_S),
                                "lockstep_discover_scenarios(judged): " + sentence)
        written = os.path.join(self.folder, "written.cmake")
        variables = {"PROGRAM": self.judged, "SELECT": "gradient.match", "FILE": written, "DISCOVERY_TIMEOUT": "60",
                     "WORKING_DIRECTORY": self.folder}
        self.assert_refused(run([self.cmake, *("-D%s=%s" % each for each in variables.items()), "-P",
                                 function.replace("LockstepDiscover", "LockstepAdd")], DEADLINE_S),
                            "does not list its scenarios (4)\nlockstep: no scenario is named 'gradient.match'")
        self.assertFalse(os.path.exists(written))

    def commands(self):
        """{subject: the words of its command} in the README."""
        with open(README, encoding="utf-8") as page:
            lines = re.findall(r"(?m)^build/judged (run .*)$", page.read())
        return {re.search(r"--subject (\w+)", line)[1]: ["judged", *line.split()] for line in lines if "--subject" in line}

    def shown(self, subject):
        """The lines that the README shows of what a run of the subject prints."""
        with open(README, encoding="utf-8") as page:
            text = page.read()
        begin = text.index("--subject " + subject)
        return re.search(r"(?ms)^```\n( .*?)^```$", text[begin:])[1].splitlines()


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.exists(os.path.join(sys.argv[1], "CMakeCache.txt")):
        sys.exit(__doc__)
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

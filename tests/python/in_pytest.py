#!/usr/bin/env python3
"""The plugin of pytest, with what users of pytest do.

usage: in_pytest.py PYTHON [TEST ...]     PYTHON is of an environment that has the package, PyTorch, pytest and pytest-xdist
"""

import os
import re
import sys
import unittest

import files
import project

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Pytest(project.Project):
    def test_fixtures_and_arguments_are_those_of_pytest(self):
        self.write("test_fixtures.py", files.FIXTURES)
        for more in (["--lockstep-tier", "cold"], ["--lockstep-tier", "warm"], ["-o", "lockstep_tier=warm", "-s"]):
            with self.subTest(more=more):
                status, said, results = self.pytest(*more)
                self.assertEqual(status, 0, said)
                self.assertEqual(len(results), 28, results.keys())
                is_cold = ["closure", "patched", "capsys", "caplog", "recwarn"] if "cold" not in more else []
                for name in is_cold:
                    self.assert_says(said, rf"test_{name}\[world2\]: ran cold: ")
                self.assertEqual(said.count("ran cold"), len(is_cold), said)
        self.assert_nothing_is_left()

    def test_seeds_are_the_same_again(self):
        self.write("test_fixtures.py", files.FIXTURES)
        drawn = set()
        for tier in "cold", "warm":
            _, said, _ = self.pytest("-k", "seeds", "--lockstep-tier", tier, SHOW="1")
            drawn.add(tuple(sorted(line for line in said.splitlines() if line.startswith("drawn"))))
        self.assertEqual(len(drawn), 1, drawn)
        self.assertEqual(len(set(*drawn)), 3, drawn)

    def test_outcomes(self):
        self.write("test_outcomes.py", files.OUTCOMES)
        for tier in "cold", "warm":
            with self.subTest(tier=tier):
                status, said, results = self.pytest("-rsx", "--lockstep-tier", tier)
                self.assertEqual(status, 1, said)
                kinds = {name.removesuffix("[world2]"): kind for name, (kind, _) in results.items()}
                self.assertEqual(kinds, {
                    "test_skipped": "skipped", "test_unittest_skip": "skipped", "test_importorskip": "skipped",
                    "test_xfail_in_body": "skipped", "test_xfail_mark": "skipped", "test_other_error": "failure",
                    "test_output": "failure", "test_capfd": "failure", "test_async": "failure"}, said)
                self.assert_says(said, r"SKIPPED \[1\] test_outcomes.py:6: all of us", "could not import 'no_such_module'",
                                 "XFAIL .*known", "capfd captures .*use capsys", "an async function cannot be a test in a world", "a warning of a rank")
                self.assert_says(said, "with a reason", "assert 0 < 0",
                                 "stdout of rank 0 in the call -+\nout 0", "stderr of rank 1 in the call -+\nerr 1",
                                 "log of rank 1 in the call -+\nWARNING  of.ours:test_outcomes.py:\\d+ log 1")

    def test_what_cannot_work_is_a_sentence(self):
        self.write("test_refused.py", files.REFUSED)
        status, said, _ = self.pytest()
        self.assertEqual(status, 1, said)
        self.assert_says(said, "fixtures run once, in the process of pytest, which is no rank", "is for tests in a world: add @lockstep.world")
        self.write("test_refused.py", "import unittest, lockstep\nclass T(unittest.TestCase):\n    @lockstep.world(2)\n    def test(self): pass\n")
        for arguments, text, sentence in (
                ([], None, "in a class of unittest use lockstep.run_world"),
                (["--lockstep-tier", "launched"], None, "the tier launched needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"),
                (["--lockstep-record", "test_refused.py"], None, "test_refused.py is no folder; without one, the option comes behind"),
                (["--lockstep-tier", "hot"], None, "there is no tier 'hot'; the tiers are cold, warm, sim"),
                ([], "import lockstep\n@lockstep.world()\ndef test(): pass\n", r"worlds are one or more numbers of ranks, such as \(2, 3\), not \(\)"),
                (["--lockstep-timeout", "-1"], "", "lockstep: a timeout is a number of seconds above 0, not -1.0"),
                ([], "import lockstep, torch.distributed as d\nd.init_process_group('gloo', rank=0, world_size=1, store=d.HashStore())\n"
                     "@lockstep.world(2)\ndef test(): pass\n", "torch.distributed is initialised in the process of the tests")):
            if text:
                self.write("test_refused.py", text)
            status, said, _ = self.pytest(*arguments)
            self.assertIn(status, (1, 2, 4), said)
            self.assert_says(said, sentence)

    def test_options_of_pytest(self):
        self.write("test_many.py", "import lockstep\nfor n in range(5):\n    exec(f'@lockstep.world(2)\\ndef test_{n}(rank): assert rank or {n} not in (1, 3)')")
        _, said, results = self.pytest("-x")
        self.assertEqual(list(results), ["test_0[world2]", "test_1[world2]"], said)
        for more, count in (["-k", "test_2 or test_4"], 2), (["test_many.py::test_2[world2]"], 1), (["-n", "2"], 5):
            status, said, results = self.pytest(*more)
            self.assertEqual(len(results), count, said)
        self.assert_nothing_is_left()

    def test_time_is_that_of_the_mark_the_option_or_the_file(self):
        for mark, more, seconds in ((None, ["-o", "lockstep_timeout=3"], 3), (None, ["-o", "lockstep_timeout=900", "--lockstep-timeout", "3.5"], 3.5),
                                    (4, ["--lockstep-timeout", "900"], 4)):
            self.write("test_slow.py", f"import time, lockstep\n@lockstep.world(2, timeout={mark})\ndef test_it(rank): time.sleep(rank * 1000)\n")
            status, said, _ = self.pytest(*more)
            self.assertEqual(status, 1, said)
            self.assert_says(said, f"rank 1 of 2 did not end within {seconds} s")

    def test_a_timeout_of_a_group_is_awaited(self):
        self.write("test_timeout.py", files.TIMEOUT_OF_A_GROUP)
        for tier in "cold", "warm":
            status, said, results = self.pytest("--lockstep-tier", tier)
            self.assertEqual(status, 0, said)
            self.assertEqual(len(results), 2, said)

    def test_a_skip_within_run_world_is_a_skip(self):
        self.write("test_skips.py", "import lockstep, pytest\ndef skips(rank): pytest.skip('all of us')\n@pytest.mark.parametrize('tier', ['cold', 'warm'])\n"
                   "def test_it(tier): lockstep.run_world(skips, 2, tier=tier)\n")
        _, said, results = self.pytest("-rs")
        self.assertEqual({kind for kind, _ in results.values()}, {"skipped"}, said)
        self.assert_says(said, "all of us")

    def test_another_series_of_pytorch_is_refused(self):
        self.write("test_any.py", "import lockstep\n@lockstep.world(2)\ndef test_it(): pass\n")
        os.mkdir(os.path.join(self.folder, "torch-9.1.0.dist-info"))
        self.write("torch-9.1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.1.0\n")
        status, said, _ = self.pytest(PYTHONPATH=self.folder)
        self.assertEqual(status, 2, said)
        self.assert_says(said, r"PyTorch here is 9\.1\.0, and this package of Lockstep is for \d+\.\d+: install the Lockstep of that release")

    def test_each_test_has_its_own_output(self):
        self.write("test_prints.py", "import lockstep, pytest\n@pytest.mark.parametrize('n', range(2))\n@lockstep.world(2)\ndef test_it(rank, n):\n"
                   "    print(f'of {n}')\n")
        for tier in "cold", "warm":
            _, said, _ = self.pytest("--lockstep-tier", tier, "-rP")
            self.assertEqual(said.count("of 0\n"), 2, said)
            self.assertEqual(said.count("of 1\n"), 2, said)

    def test_last_failed(self):
        self.write("test_many.py", "import lockstep\n@lockstep.world(2, 3)\ndef test_it(rank, world_size): assert world_size == 2\n")
        self.run_python("-m", "pytest")
        status, said = self.run_python("-m", "pytest", "--lf")
        self.assertEqual(status, 1, said)
        self.assert_says(said, "collected 1 item\n", r"test_it\[world3\]", "1 failed in")

    def test_recorded_tests_are_judged(self):
        self.write("test_training.py", files.TRAINING)
        for tier in "cold", "warm", "sim":
            with self.subTest(tier=tier):
                status, said, results = self.pytest("-rA", "--lockstep-tier", tier, "--lockstep-record=" + tier)
                self.assertEqual({name: kind for name, (kind, _) in results.items()},
                                 {"test_right[world2]": "passed", "test_wrong[world2]": "failure", "test_no_training[world2]": "passed",
                                  "test_unjudged[world2]": "passed", "test_throws[world2]": "failure"}, said)
                self.assert_says(results["test_wrong[world2]"][1], "lockstep judge. says", "parameters.are_the_same", "parameters of model 0")
                self.assertNotRegex(said, "left behind.*history")
                self.assert_says(said, "not judged: no rank made an update")
                self.assert_says(said, "judge call", "not judged: the parameters are divided")
                self.assert_says(results["test_throws[world2]"][1], "rank 1: ValueError: planted")
                folders = os.listdir(os.path.join(self.folder, tier))
                self.assertEqual(len(folders), 5)
                for each in folders:
                    self.assertEqual(sorted(os.listdir(os.path.join(self.folder, tier, each))), ["rank0.history", "rank1.history"])
        status, said, _ = self.pytest("-k", "right", "--lockstep-record")
        self.assertEqual(status, 0, said)


def comparable(text):
    """Without what differs from machine to machine and from run to run: addresses, times, folders, values, and where their columns begin."""
    text = re.sub(r"(?m)^.*[◄✗]$", lambda row: re.sub(r"(?<= )-?\d+(?= )", "0", row[0]), text)
    text = re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?e[-+]\d+|-?\d+\.\d+", "0", text)
    return re.sub(r" +", " ", re.sub(r'File "[^"]*/', 'File "', re.sub(r"=+", "=", text)))


class Page(project.Project):
    def test_the_first_ten_minutes_print_what_the_page_says(self):
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
            section = file.read().split("## Ten minutes to the first test")[1].split("\n## ")[0]
        named = re.findall(r"(?s)In `(test_\w+\.py)`:\n\n```python\n(.*?)```.*?\n```\n(.*?)```", section)
        self.assertEqual([name for name, _, _ in named], ["test_average.py", "test_stop.py", "test_train.py"])
        for name, code, _ in named:
            self.write(name, code)
        for name, _, printed in named:
            _, said = self.run_python("-m", "pytest", "-p", "no:cacheprovider", name)
            for part in printed.split("...\n"):
                self.assertIn(comparable(part), comparable(said))


class Example(project.Project):
    def test_the_example_holds_and_fails_where_its_average_is_a_sum(self):
        example = os.path.join(ROOT, "examples", "pytest")
        for name in "averaging.py", "test_averaging.py", "pytest.ini":
            with open(os.path.join(example, name), encoding="utf-8") as file:
                self.write(name, file.read())
        status, said, results = self.pytest()
        self.assertEqual(status, 0, said)
        self.assertEqual(len(results), 6, said)
        with open(os.path.join(example, "averaging.py"), encoding="utf-8") as file:
            self.write("averaging.py", file.read().replace("    flat /= dist.get_world_size()\n", ""))
        status, said, results = self.pytest()
        self.assertEqual(sorted(name for name, (kind, _) in results.items() if kind == "failure"),
                         [f"test_gradients_are_averages[world{size}]" for size in (2, 3, 4)] + ["test_training_is_that_of_one_process"], said)
        self.assert_says(said, "the SUM of the ranks' gradients, not the average")


if __name__ == "__main__":
    project.PYTHON = os.path.abspath(sys.argv.pop(1))
    unittest.main()

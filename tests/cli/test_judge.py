"""Recorded runs, word for word and in every format: golden/judge_*.txt and golden/trace.txt are the specification.

The run is one of examples/recorded.cpp as two ranks, of which one was given another learning rate."""

import json
import os
import shutil
import unittest
import xml.etree.ElementTree

from program_case import HERE, ProgramCase

RUN = os.path.join(os.path.dirname(HERE), "judge", "vectors", "learning_rate")


class Recorded(ProgramCase):
    def setUp(self):
        super().setUp()
        shutil.copytree(RUN, os.path.join(self.folder, "run"))

    def test_a_story(self):
        self.assert_golden("judge_fails", self.told("judge", "run"))

    def test_a_story_without_unicode(self):
        text = self.told("judge", "run", "-q", LC_ALL="C")
        self.assertTrue(text.isascii())
        self.assert_golden("judge_fails_ascii", text)

    def test_a_step_on_github(self):
        self.assert_golden("judge_github", self.told("judge", "run", "-q", GITHUB_ACTIONS="true"))

    def test_the_table_of_a_trace(self):
        self.assert_golden("trace", self.told("trace", "run"))
        with open(os.path.join(self.folder, "run", "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "run"))),
                         ["rank0.history", "rank1.history", "trace.json"])

    def test_junit_has_a_test_for_each_claim(self):
        self.run_program("judge", "run", "--junit", "junit.xml")
        cases = list(xml.etree.ElementTree.parse(os.path.join(self.folder, "junit.xml")).iter("testcase"))
        self.assertEqual(len(cases), 18)
        failed = [case.get("classname") + "." + case.get("name") for case in cases if case.find("failure") is not None]
        self.assertEqual(failed, ["lockstep.optimizer.has_one_setting@recorded-recorded-gloo",
                                  "lockstep.parameters.are_the_same@recorded-recorded-gloo"])
        self.assertEqual(sum(case.find("skipped") is not None for case in cases), 1)

    def test_the_summary_of_a_step_on_github_has_the_story(self):
        self.run_program("judge", "run", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="summary.md")
        with open(os.path.join(self.folder, "summary.md"), encoding="utf-8") as file:
            self.assertIn("lr of group 0 of optimizer 0: rank 0 has 0.01, rank 1 has 0.02", file.read())

    def test_a_link_in_the_folder_is_replaced_and_not_followed(self):
        elsewhere = os.path.join(self.folder, "elsewhere")
        with open(elsewhere, "w", encoding="ascii") as file:
            file.write("kept")
        os.symlink(elsewhere, os.path.join(self.folder, "run", "trace.json"))
        status, _, err = self.run_program("trace", "run")
        self.assertEqual(status, 0, err)
        with open(elsewhere, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")
        self.assertFalse(os.path.islink(os.path.join(self.folder, "run", "trace.json")))

    def test_what_is_no_recorded_run_is_refused(self):
        os.remove(os.path.join(self.folder, "run", "rank1.history"))
        os.mkfifo(os.path.join(self.folder, "run", "rank1.history"))
        for command in ("judge", "trace"):
            for folder, sentence in (("nowhere", "nowhere: is no folder of recorded histories"),
                                     (".", "holds no rank0.history: nothing was recorded here"),
                                     ("run", "run/rank1.history: "), ("", "is empty")):
                status, out, err = self.run_program(command, folder)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(sentence, err)


if __name__ == "__main__":
    unittest.main()

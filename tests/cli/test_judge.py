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
        self.assert_golden("judge_fails", self.transcript("judge", "run"))

    def test_a_story_without_unicode(self):
        text = self.transcript("judge", "run", "-q", LC_ALL="C")
        self.assertTrue(text.isascii())
        self.assert_golden("judge_fails_ascii", text)

    def test_a_step_on_github(self):
        self.assert_golden("judge_github", self.transcript("judge", "run", "-q", GITHUB_ACTIONS="true"))

    def test_what_a_user_asks_leads_somewhere(self):
        """Words of exceptions, of questions about trainings, and of judge's own findings."""
        for words in ("inplace", "in-place", "marked as ready twice", "Connection closed by peer", "IterableDataset", "padding", "metric", "barrier",
                      "early stop", "scheduler", "spawn", "GAN", "LoRA", "EMA", "bypass", "unused parameters", "find_unused_parameters",
                      "timeout", "hang", "deadlock", "no_sync", "accumulation", "clipping", "GradScaler", "NaN", "sampler", "shuffle",
                      "set_epoch", "random_split", "seed", "dropout", "num_workers", "BatchNorm", "SyncBatchNorm", "checkpoint", "resume",
                      "momentum", "zero_grad", "FSDP", "fully_shard", "ZeRO", "Muon", "tensor parallel", "tokens", "torch.compile", "join",
                      "straggler", "eval", "NCCL", "requires_grad", "retain_graph", "logging", "RANK", "WORLD_SIZE", "drop_last", "frozen",
                      "data.order_changes", "values.follow_one_process", "skipped_update", "same_losses"):
            with self.subTest(words=words):
                status, out, err = self.run_program("explain", words)
                self.assertEqual(status, 0, err)
                self.assertTrue(out)

    def test_an_allowed_finding_is_a_remark(self):
        status, out, _ = self.run_program("judge", "run", "--allow", "optimizer.has_one_setting", "--allow", "parameters.are_the_same")
        self.assertEqual(status, 0, out)
        self.assertIn("remark: lr of group 0 of optimizer 0: rank 0 has 0.01, rank 1 has 0.02", out)
        with open(os.path.join(self.folder, "allowed.txt"), "w", encoding="ascii") as file:
            file.write("# known\noptimizer.has_one_setting   # on purpose\nparameters.are_the_same\n")
        status, again, _ = self.run_program("judge", "run", "--allow-file", "allowed.txt", "--json", "run.json")
        self.assertEqual(status, 0, again)
        self.assertIn("2 remarks", again)
        self.assertEqual(self.run_program("report", "run.json")[0], 0)
        status, _, err = self.run_program("judge", "run", "--allow", "no.such_claim")
        self.assertEqual((status, err.splitlines()[0]), (2, "lockstep: --allow: no invariant of judge is named 'no.such_claim'; docs/judge.md "
                                                            "lists them"))

    def test_the_table_of_a_trace(self):
        self.assert_golden("trace", self.transcript("trace", "run"))
        with open(os.path.join(self.folder, "run", "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "run"))),
                         ["rank0.history", "rank1.history", "trace.json"])

    def test_junit_has_a_test_for_each_claim(self):
        self.run_program("judge", "run", "--junit", "junit.xml")
        cases = list(xml.etree.ElementTree.parse(os.path.join(self.folder, "junit.xml")).iter("testcase"))
        self.assertEqual(len(cases), 19)
        failed = [case.get("classname") + "." + case.get("name") for case in cases if case.find("failure") is not None]
        self.assertEqual(failed, ["lockstep.optimizer.has_one_setting@recorded-recorded-gloo"])
        self.assertEqual(sum(case.find("skipped") is not None for case in cases), 4)

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

    def replayed(self):
        """A case that failed in a simulated world, with what its ranks recorded."""
        with open(os.path.join(self.folder, "case.json"), "w", encoding="ascii") as file:
            json.dump({"lockstep_case": 1, "scenario": "toys.average", "value": {"world": {"size": 3}}}, file)
        return self.run_program("replay", "case.json", "--tier", "sim", "--history", "histories", "--trace", "trace.json")

    def judged_case(self):
        status, out, err = self.run_program("judge", "histories", "--case", "case.json")
        return status, out + err

    def test_a_case_that_another_program_ran_has_the_verdict_that_ours_had(self):
        status, out, err = self.replayed()
        self.assertEqual(status, 1, out + err)
        self.assertIn("histories: histories, of toys.average (toy, sim), case 1 of 1", out)
        again, text = self.judged_case()
        self.assertEqual(again, 1, text)
        story = out[out.index("\u2717"):out.index("  replay ")]
        self.assertEqual(text[text.index("\u2717"):text.index("  read ")], story)

    def test_a_case_has_a_trace_as_a_recorded_run_has(self):
        _, out, _ = self.replayed()
        self.assertRegex(out, r"toys\.average \(toy, sim\), case 1 of 1, 3 ranks")
        with open(os.path.join(self.folder, "trace.json"), encoding="utf-8") as file:
            self.assertEqual({event["pid"] for event in json.load(file)["traceEvents"]}, {0, 1, 2})

    def test_a_history_of_another_case_or_of_no_case_is_refused(self):
        self.replayed()
        path = os.path.join(self.folder, "histories", "rank1.history")
        with open(path, "rb") as file:
            content = file.read()
        for changed, sentence in ((content.replace(b'"rank":1', b'"rank":0'), "its 'rank' is 0; expected 1"),
                                  (content[:7], "is no history: record 0: the file ends inside it"),
                                  (b"", "is empty")):
            with open(path, "wb") as file:
                file.write(changed)
            status, text = self.judged_case()
            self.assertEqual(status, 2, text)
            self.assertIn("rank1.history", text)
            self.assertIn(sentence, text)
        status, _, err = self.run_program("judge", "run", "--case", "case.json", "--against", "run")
        self.assertEqual((status, "--against and --case exclude each other" in err), (2, True))
        status, _, err = self.run_program("judge", "run", "--against", "run")
        self.assertEqual((status, "run: has digests of tensors and no values" in err), (2, True), err)

    def test_launch_says_where_nothing_can_be_recorded_or_was(self):
        with open(os.path.join(self.folder, "a file"), "w", encoding="ascii"):
            pass
        for folder, status, sentence in (("a file", 2, "--record a file: is no folder"),
                                         ("-n", 2, "--record takes a folder, and '-n' is an option"),
                                         ("run", 2, "--record run: holds a recorded run already; name a new folder"),
                                         ("new", 0, "the program recorded nothing: it imports no PyTorch, or lacks a lockstep::Recorder in C++")):
            ended, _, err = self.run_program("launch", "--record", folder, "-n", "1", "--", "/bin/true")
            self.assertEqual((ended, sentence in err), (status, True), err)

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

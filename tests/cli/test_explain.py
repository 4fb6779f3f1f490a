"""Checks what `explain` says of Lockstep's own scenarios: examples that ran, searches, and cases to replay."""

import json
import unittest

from program_case import ProgramCase

EXPLAINED = "gradients.match_single_process"
REPLAYED = (EXPLAINED, "sampler.partitions_the_dataset", "buffers.follow_rank_zero",
            "sync_batch_norm.matches_single_process", "unused.are_averaged_over_all_ranks")


class Explaining(ProgramCase):
    def out_of(self, *arguments):
        status, out, err = self.run_program(*arguments)
        self.assertEqual((status, err), (0, ""), arguments)
        return out

    def test_one_whole(self):
        self.assert_golden("explain_example", self.transcript("explain", EXPLAINED))

    def test_a_word_of_the_glossary_is_explained_in_any_case_and_without_marks(self):
        for asked, word in (("tier", "tier"), ("Failure notice", "failure notice"), ("sum", "average, sum")):
            lines = self.out_of("explain", asked).splitlines()
            self.assertEqual(lines[0], word)
            self.assertTrue(lines[1].startswith("  means           "), lines)
            self.assertIn("  read            docs/glossary.md", lines)
            self.assertNotRegex(" ".join(lines[:4]), r"`|\]\(|\*")
        self.assertIn("demonstration (a word)", self.out_of("explain", "demo"))

    def test_the_cases_of_explain_hold_when_they_are_replayed(self):
        for name in REPLAYED:
            with self.subTest(name):
                path = self.folder + "/case.json"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(self.out_of("explain", name, "--case"))
                out = self.out_of("replay", path, "--tier", "sim")
                self.assertIn("1 scenario: 1 passed   1 case", out)

    def test_a_changed_case_is_another(self):
        case = json.loads(self.out_of("explain", EXPLAINED, "--case"))
        case["value"]["world"]["size"] = 3
        path = self.folder + "/case.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(case, file)
        self.assertIn("3", self.out_of("replay", path, "--tier", "sim"))

    def test_searches(self):
        self.assert_golden("explain_searches", "".join(self.transcript("explain", words) for words in (
            "momentum", "belief-17", "syncbn", "dead rank", "bufers", "no such words")))

    def test_tags_are_found(self):
        found = self.out_of("explain", "optimizers").splitlines()
        for tagged in self.out_of("list", "--tag", "optimizers").splitlines()[::3]:
            self.assertIn(tagged, found)


if __name__ == "__main__":
    unittest.main()

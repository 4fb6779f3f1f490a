"""Cases of Lockstep's own scenarios whose histories were changed: judge finds what the scenario's checks find in a run."""

import json
import os
import shutil
import struct
import unittest

from program_case import ProgramCase

OBSERVATION = 3  # docs/protocol.md, section 2
TRAINING = {"world": {"size": 2}, "steps": 2, "batch_log2": 2, "network": {"inputs": 3}}
SAMPLING = {"world": {"size": 3}, "length": 12, "epochs": 2, "shuffle": True}


def records_of(content):
    """(kind, header, where its payload begins, its bytes) of each record."""
    at = 0
    while at < len(content):
        header, kind, payload = struct.unpack_from("<IIQ", content, at)
        yield kind, json.loads(content[at + 16:at + 16 + header]), at + 16 + header, payload
        at += 16 + (header + payload + 7) // 8 * 8 + 8


class Changed(ProgramCase):
    def changed(self, rank, change):
        """Rewrites the observations of a rank: change(phase, name, values) gives the values in their place, or None."""
        path = os.path.join(self.folder, "histories", "rank%d.history" % rank)
        with open(path, "rb") as file:
            content = bytearray(file.read())
        phase, count = "", 0
        for kind, header, at, size in list(records_of(content)):
            phase = header.get("phase", phase)
            if kind != OBSERVATION or header["dtype"] not in ("float32", "int64"):
                continue
            form = "<%d%s" % ((size // 4, "f") if header["dtype"] == "float32" else (size // 8, "q"))
            values = change(phase, header["name"], struct.unpack_from(form, content, at))
            if values is not None:
                struct.pack_into(form, content, at, *values)
                count += 1
        self.assertGreater(count, 0, "nothing was changed")
        with open(path, "wb") as file:
            file.write(content)

    def judged(self, scenario, value, changes):
        """Exit code, text, and patterns of the findings in a case's histories, of which {rank: change} were changed."""
        shutil.rmtree(os.path.join(self.folder, "histories"), ignore_errors=True)
        with open(os.path.join(self.folder, "case.json"), "w", encoding="ascii") as file:
            json.dump({"lockstep_case": 1, "scenario": scenario, "value": value}, file)
        status, out, err = self.run_program("replay", "case.json", "--tier", "sim", "--history", "histories")
        self.assertEqual(status, 0, out + err)
        for rank, change in changes.items():
            self.changed(rank, change)
        status, out, err = self.run_program("judge", "histories", "--case", "case.json", "--json", "judged.json")
        with open(os.path.join(self.folder, "judged.json"), encoding="utf-8") as file:
            result, = json.load(file)["results"]
        return status, out + err, [finding["pattern"] for finding in result["findings"]]

    def scaled(self, factor):
        return lambda phase, name, values: [factor * each for each in values] if phase == "after backward" else None

    def test_a_history_that_nobody_changed_holds(self):
        for scenario, value in (("gradients.match_single_process", TRAINING), ("sampler.partitions_the_dataset", SAMPLING)):
            with self.subTest(scenario=scenario):
                status, text, patterns = self.judged(scenario, value, {})
                self.assertEqual((status, patterns), (0, []), text)

    def test_gradients_that_were_summed_are_called_so(self):
        status, text, patterns = self.judged("gradients.match_single_process", TRAINING, {0: self.scaled(2), 1: self.scaled(2)})
        self.assertEqual((status, patterns[:1]), (1, ["sum_not_average"]), text)

    def test_gradients_that_were_divided_once_more_are_called_so(self):
        status, text, patterns = self.judged("gradients.match_single_process", TRAINING, {0: self.scaled(0.5), 1: self.scaled(0.5)})
        self.assertEqual((status, patterns[:1]), (1, ["divided_twice"]), text)

    def test_the_rank_that_alone_is_right_is_named(self):
        status, text, patterns = self.judged("gradients.match_single_process", TRAINING, {1: self.scaled(3)})
        self.assertEqual((status, patterns[:1]), (1, ["only_rank_zero_right"]), text)
        self.assertIn("first divergence: step 0, after backward, branch0.0.weight[0, ", text)

    def test_a_rank_that_draws_what_another_draws_is_no_partition(self):
        status, text, patterns = self.judged("sampler.partitions_the_dataset", SAMPLING,
                                             {2: lambda phase, name, values: [values[1], *values[1:]] if len(values) > 1 else None})
        self.assertEqual((status, patterns[:1]), (1, ["not_a_partition"]), text)


if __name__ == "__main__":
    unittest.main()

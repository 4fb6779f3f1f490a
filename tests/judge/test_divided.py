"""Models that the ranks hold parts of: replicas of a part are compared, and beside one process the parts are put together.

usage: test_divided.py LOCKSTEP
"""

import os

from recorded_case import RecordedCase, main

VALUES, PARAMETERS = "values.follow_one_process", "parameters.are_the_same"
HYBRIDS, LAYERS = ("hybrid", "hybrid_replica_moved", "hybrid_shard_moved"), ("layers", "layers_shard_moved")


class Divided(RecordedCase):
    @classmethod
    def setUpClass(cls):
        cls.record("lockstep divided ", "divided.py", [*(name + ":4" for name in HYBRIDS), *(name + ":2" for name in LAYERS), "hybrid:1", "layers:1"])

    def beside_one(self, name, *statuses):
        return self.judge(name, "--against", os.path.join(self.folder, name.partition("_")[0].partition("-")[0] + "-1"), statuses=statuses)

    def test_replicas_of_each_part_are_compared(self):
        result, results = self.judge("hybrid-4", statuses=(0, 1, 3, 77))
        self.assertEqual((result.returncode, results[PARAMETERS]["result"]), (0, "pass"), result.stdout)

    def test_a_replica_that_differs_is_found_with_its_step_and_tensor(self):
        result, results = self.judge("hybrid_replica_moved-4", statuses=(0, 1, 3, 77))
        self.assertEqual((result.returncode, results[PARAMETERS]["result"]), (1, "fail"), result.stdout)
        self.assertIn("step 1", result.stdout)
        self.assertIn("0.weight", result.stdout)

    def test_parts_without_replicas_are_not_judged_alone(self):
        for name in LAYERS:
            with self.subTest(name=name):
                result, results = self.judge(name + "-2", statuses=(0, 1, 3, 77))
                self.assertEqual((result.returncode, results["data.is_partitioned"]["result"]), (77, "skip"), result.stdout)

    def test_parts_together_are_what_one_process_holds(self):
        for name in ("hybrid-4", "layers-2"):
            with self.subTest(name=name):
                result, results = self.beside_one(name, 0, 1, 3, 77)
                self.assertEqual((result.returncode, results[VALUES]["result"]), (0, "pass"), result.stdout)

    def test_a_part_that_all_its_replicas_moved_is_found_beside_one_process(self):
        for name in ("hybrid_shard_moved-4", "layers_shard_moved-2"):
            with self.subTest(name=name):
                result, results = self.beside_one(name, 0, 1, 3, 77)
                self.assertEqual((result.returncode, results[VALUES]["result"]), (1, "fail"), result.stdout)
                self.assertRegex(results[VALUES]["findings"][0]["where"], "step 1")


if __name__ == "__main__":
    main()

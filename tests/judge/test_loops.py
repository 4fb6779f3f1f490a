"""Training loops that seeds draw (loops.py): right ones are clean and train as without the recorder, and each planted mistake that
ranks show each other is caught, by one of the invariants that name it. Beside one process right loops are clean too, and every mistake is
caught.

usage: test_loops.py LOCKSTEP     LOCKSTEP_CAMPAIGNS has 500 right loops and 20 of each mistake, instead of 16 and one; beside one
                                  process 60 and 5, instead of 3 and a few
"""

import os
import re
import subprocess

from recorded_case import HERE, PYTHON, RecordedCase, main

MANY = bool(os.environ.get("LOCKSTEP_CAMPAIGNS"))
COUNTS = (500, 20, 60, 5) if MANY else (16, 1, 3, 1)


def printed(said):
    """Rank's line by its head, from outputs whose lines may stand behind each other."""
    return dict(re.findall(r"(\d+-\w+ rank \d+): (-?[\d.e+-]*\d)", said))


class Loops(RecordedCase):
    @classmethod
    def setUpClass(cls):
        listed = subprocess.run([PYTHON, os.path.join(HERE, "loops.py"), "--list", *map(str, COUNTS)], capture_output=True,
                                text=True, timeout=120, check=True).stdout.split()
        alone = [each for each in listed if "+one" in each]
        cls.right = [each for each in listed if each.endswith(":right")]
        cls.wrong = [each.split("=") for each in listed if "=" in each and each not in alone]
        cls.right_beside_one = [each for each in alone if "=" not in each]
        cls.wrong_beside_one = [each.split("=") for each in alone if "=" in each][::1 if MANY else 4]
        cls.record("lockstep loops ", "loops.py", cls.right + cls.right_beside_one +
                   [each for each, _ in cls.wrong + cls.wrong_beside_one], seconds=7200)

    def judged(self, loop, *statuses):
        name = loop.removesuffix("+one").replace(":", "-")
        beside = ["--against", os.path.join(self.folder, name.split("-")[0] + "-one")] if loop.endswith("+one") else []
        return self.judge(name, *beside, statuses=statuses)

    def missed(self, wrong):
        for loop, invariants in wrong:
            result, results = self.judged(loop, 0, 1, 3, 77)
            failed = {invariant for invariant, each in results.items() if each["result"] == "fail"}
            if result.returncode != 1 or not failed & set(invariants.split(",")):
                yield loop, result.returncode, sorted(failed)

    def test_right_loops_are_clean(self):
        for loop in self.right:
            with self.subTest(loop=loop):
                result, results = self.judged(loop, 0, 1, 3)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(results["parameters.are_the_same"]["result"], "pass", result.stdout)

    def test_right_loops_train_as_without_the_recorder(self):
        plain = subprocess.run([PYTHON, os.path.join(HERE, "loops.py"), self.folder + "/plain", "--plain", *self.right[:10]],
                               capture_output=True, text=True, timeout=600, check=False)
        recorded, wanted = printed(self.log), printed(plain.stdout)
        self.assertGreaterEqual(len(wanted), 20, plain.stdout + plain.stderr)
        self.assertEqual({head: recorded.get(head) for head in wanted}, wanted)

    def test_planted_mistakes_are_caught_and_named(self):
        missed = list(self.missed(self.wrong))
        self.assertLessEqual(len(missed), 0.05 * len(self.wrong) if MANY else 0, missed)

    def test_right_loops_follow_one_process(self):
        for loop in self.right_beside_one:
            with self.subTest(loop=loop):
                result, results = self.judged(loop, 0, 1, 3)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(results["values.follow_one_process"]["result"], "pass", result.stdout)

    def test_beside_one_process_every_mistake_is_caught(self):
        self.assertEqual(list(self.missed(self.wrong_beside_one)), [])


if __name__ == "__main__":
    main()

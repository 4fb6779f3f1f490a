"""Training loops that seeds draw (loops.py): right ones are clean and train as without the recorder, and each planted mistake that
ranks show each other is caught.

usage: test_loops.py LOCKSTEP     LOCKSTEP_CAMPAIGNS has 500 right loops and 20 of each mistake, instead of 16 and one
"""

import os
import re
import subprocess

from recorded_case import HERE, PYTHON, RecordedCase, main

MANY = bool(os.environ.get("LOCKSTEP_CAMPAIGNS"))
RIGHT, OF_EACH = (500, 20) if MANY else (16, 1)


def printed(said):
    """Rank's line by its head, from outputs whose lines may stand behind each other."""
    return dict(re.findall(r"(\d+-\w+ rank \d+): (-?[\d.e+-]*\d)", said))


class Loops(RecordedCase):
    @classmethod
    def setUpClass(cls):
        listed = subprocess.run([PYTHON, os.path.join(HERE, "loops.py"), "--list", str(RIGHT), str(OF_EACH)], capture_output=True,
                                text=True, timeout=120, check=True).stdout.split()
        cls.right = [each for each in listed if each.endswith(":right")]
        cls.wrong = [each.split("=") for each in listed if "=" in each]
        cls.record("lockstep loops ", "loops.py", cls.right + [each for each, _ in cls.wrong], seconds=3600)

    def judged(self, loop, *statuses):
        return self.judge(loop.replace(":", "-"), statuses=statuses)

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
        missed = []
        for loop, claims in self.wrong:
            result, results = self.judged(loop, 0, 1, 3, 77)
            failed = {claim for claim, each in results.items() if each["result"] == "fail"}
            if result.returncode != 1 or not failed & set(claims.split(",")):
                missed.append((loop, result.returncode, sorted(failed)))
        self.assertLessEqual(len(missed), 0.05 * len(self.wrong) if MANY else 0, missed)


if __name__ == "__main__":
    main()

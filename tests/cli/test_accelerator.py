"""The whole catalogue on the simulated accelerator, as README offers it, and what docs/accelerator.md says of that."""

import json
import os
import re
import subprocess
import unittest

from program_case import PROGRAM, ProgramCase

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 900
REFUSED = re.compile(r"(?m)^\| `(?P<scenario>\w+\.\w+)` \| (?P<cases>all|some) \| (?P<reason>.+) \|$")


def page():
    with open(os.path.join(ROOT, "docs", "accelerator.md"), encoding="utf-8") as file:
        return file.read()


class Catalogue(ProgramCase):
    """A share of every scenario's cases, by one seed."""

    def results(self):
        done = subprocess.run([PROGRAM, "run", "--backend", "accelerator", "--seed", "3", "--shard", "1/60"],
                              cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.latest()["results"]

    def scenarios(self):
        file = os.path.join(self.folder, "list.json")
        subprocess.run([PROGRAM, "list", "--json", file], capture_output=True, check=True)
        with open(file, encoding="utf-8") as listed:
            return [each["name"] for each in json.load(listed)["scenarios"]]

    def test_every_scenario_holds_or_is_refused_as_the_page_says(self):
        results = self.results()
        self.assertEqual([each["scenario"] for each in results], self.scenarios())
        rows = [row.groupdict() for row in REFUSED.finditer(page())]
        whole = sorted(row["scenario"] for row in rows if row["cases"] == "all")
        skipped = sorted(each["scenario"] for each in results if each["result"] == "skip")
        self.assertTrue(set(whole) <= set(skipped), skipped)
        for each in results:
            for reason in each["refused"]:
                if each["result"] == "skip" or re.search("device|accelerator", reason):
                    self.assertIn((each["scenario"], reason), [(row["scenario"], row["reason"]) for row in rows])
        said = re.search(r"(\d+) of the (\d+) scenarios are judged", page())
        self.assertEqual((int(said[1]), int(said[2])), (len(results) - len(whole), len(results)))


if __name__ == "__main__":
    unittest.main()

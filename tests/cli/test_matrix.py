"""docs/matrix.md against what ./lockstep matrix finds now, for the subjects that every build has, and against
docs/semantics.md. LOCKSTEP names Lockstep's own program."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("LOCKSTEP", "")
ALWAYS_THERE = ["lockstep", "c10d", "naive"]
PATIENCE_S = 1100


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def verdicts(page, heading):
    """{(row, column): verdict} of the table with that heading in its first column."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    columns = [cell.strip() for cell in lines[start].strip("|").split("|")]
    found = {}
    for line in lines[start + 2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != len(columns):
            break
        for column, cell in zip(columns[1:], cells[1:]):
            found[cells[0], column] = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell)
    return found


def run(*arguments):
    result = subprocess.run([PROGRAM, "matrix", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=PATIENCE_S, check=False)
    return result.returncode, result.stdout


class Page(unittest.TestCase):
    def test_it_is_what_the_program_finds_now(self):
        page = read(ROOT, "docs", "matrix.md")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "matrix.md")
            status, said = run("--subject", ",".join(ALWAYS_THERE), "--file", file, "--out", os.path.join(folder, "out"))
            self.assertEqual(status, 0, said)
            now = read(file)
        for heading in ("claim", "semantics"):
            kept = {key: cell for key, cell in verdicts(page, heading).items() if key[1] in ALWAYS_THERE}
            self.assertEqual(kept, {key: cell for key, cell in verdicts(now, heading).items() if key[1] in ALWAYS_THERE})
            self.assertTrue(kept)

    def test_what_is_ours_holds(self):
        ours = {cell for (_, column), cell in verdicts(read(ROOT, "docs", "matrix.md"), "claim").items()
                if column == "lockstep"}
        self.assertEqual(ours, {"holds"})

    def test_each_deliberate_difference_has_its_row(self):
        numbers = re.findall(r"(?m)^\| (0\.\d+) \|", read(ROOT, "docs", "semantics.md"))
        rows = {row for row, _ in verdicts(read(ROOT, "docs", "matrix.md"), "semantics")}
        self.assertEqual(rows, set(numbers))
        self.assertGreater(len(numbers), 20)

    def test_its_case_files_are_there_and_no_others(self):
        linked = set(re.findall(r"\]\((matrix/[^)]*\.json)\)", read(ROOT, "docs", "matrix.md")))
        self.assertEqual(linked, {"matrix/" + name for name in os.listdir(os.path.join(ROOT, "docs", "matrix"))})

    def test_a_subject_that_cannot_run_here_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            status, said = run("--subject", "lockstop", "--file", os.path.join(folder, "m.md"), "--out", folder)
        self.assertEqual(status, 2, said)
        self.assertIn("--subject lockstop: unknown value 'lockstop' (did you mean 'lockstep'?)", said)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        sys.exit("LOCKSTEP=%s names no program" % PROGRAM)
    unittest.main()

"""The stories of the matrix's cases, for the subjects that every build has: each case file of docs/matrix that its page links to,
replayed with the subject of its column, is a golden text."""

import os
import re
import shutil
import unittest

from program_case import HERE, ProgramCase

DOCS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs")
ALWAYS_THERE = ("c10d", "naive")


def linked():
    """(subject, case file) of each cell that differs."""
    with open(os.path.join(DOCS, "matrix.md"), encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    subjects = next(row for row in rows if row[0] == "claim")
    return sorted({(subject, name) for row in rows for subject, cell in zip(subjects, row) if subject in ALWAYS_THERE
                   for name in re.findall(r"\(matrix/([^)]*)\)", cell)})


class Stories(ProgramCase):
    def test_each_says_what_is_wrong_and_how_to_see_it_again(self):
        texts = []
        for subject, name in linked():
            shutil.copy(os.path.join(DOCS, "matrix", name), self.folder)
            texts.append(self.transcript("replay", name, "--subject", subject, "--tier", "sim"))
        self.assertGreaterEqual(len(texts), 20)
        self.assert_golden("stories", "".join(texts))


if __name__ == "__main__":
    unittest.main()

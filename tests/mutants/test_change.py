"""A change is planted hunk by hunk, taken back, and told: what escaped first, and why something could not be tried."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import change  # noqa: E402
from tree import Outcome  # noqa: E402

BEFORE = "".join(f"line {number}\n" for number in range(30))
AFTER = BEFORE.replace("line 3\n", "mended 3\n").replace("line 25\n", "mended 25\n")
FAILURE = {"number": 12, "unlike_default": {"world": {"size": 2}, "steps": 3}}


class FakeTree:
    """Builds what has no "broken" in it, and catches what takes back the first hunk."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "ddp/a.cpp"
        self.seen = []

    def build(self):
        self.seen.append(self.file.read_text())
        return "ddp/a.cpp:1: error: broken" if "broken" in self.seen[-1] else ""

    def run_on(self, _backend, _scenarios, _seed, shrinks, stops):
        is_caught = "line 3\n" in self.seen[-1]
        result = ("fail", "sum_not_average", "a sum", 0.1, FAILURE) if is_caught else ("pass", "", "", 0.1, {})
        return {"gradients.match": Outcome(*result)}

    def restore(self):
        subprocess.run(["git", "-C", str(self.folder), "checkout", "--quiet", "."], check=True)


class Change(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "ddp").mkdir()
        self.git("init", "--quiet")
        self.commit(BEFORE)
        self.commit(AFTER)
        self.tree = FakeTree(self.root)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.root), *words], check=True)

    def commit(self, text):
        (self.root / "ddp/a.cpp").write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "a")

    def planted(self, **arguments):
        return change.planted_of(types.SimpleNamespace(**({"patch": None, "diff": "HEAD~1..HEAD", "root": self.root}
                                                          | arguments)))

    def patch(self, text):
        path = self.root / "a.patch"
        path.write_text(text)
        return self.planted(patch=path)

    def told(self, every):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = change.report([change.tell(self.tree, each, "7") for each in every])
        return code, out.getvalue()

    def test_EachHunkIsTakenBackAloneAndTheTreeRestored(self):
        code, said = self.told(self.planted())
        self.assertEqual(self.tree.seen, [AFTER.replace("mended 3\n", "line 3\n"), AFTER.replace("mended 25\n", "line 25\n")])
        self.assertEqual((self.root / "ddp/a.cpp").read_text(), AFTER)
        self.assertEqual(code, 1)
        lines = said.splitlines()
        self.assertTrue(lines[0].startswith("ESCAPED   ddp/a.cpp:23"), said)
        self.assertEqual(lines[1], "caught    ddp/a.cpp:1: gradients.match, fail sum_not_average")
        self.assertIn("case 12, the smallest that shows it: world.size 2 · steps 3", said)
        self.assertEqual(lines[-1], "1 of 2 caught, 1 escaped, 0 could not be tried")

    def test_APatchIsAppliedAsAWhole(self):
        self.git("diff", "--output=b.patch", "HEAD", "HEAD~1")
        code, said = self.told(self.planted(patch=self.root / "b.patch"))
        self.assertEqual(self.tree.seen, [BEFORE])
        self.assertEqual(code, 0, said)

    def test_WhatCannotBeTriedSaysWhy(self):
        code, said = self.told(self.patch("--- a/ddp/a.cpp\n+++ b/ddp/a.cpp\n@@ -1 +1 @@\n-never\n+there\n"))
        self.assertIn("NOT TRIED a.patch: it cannot be applied: error: patch failed", said)
        self.assertEqual(code, 2)
        code, said = self.told(self.patch("--- a/ddp/a.cpp\n+++ b/ddp/a.cpp\n@@ -1,2 +1,2 @@\n-line 0\n+broken\n line 1\n"))
        self.assertIn("NOT TRIED a.patch: it does not build: ddp/a.cpp:1: error: broken", said)
        self.assertEqual(code, 2)
        self.assertEqual((self.root / "ddp/a.cpp").read_text(), AFTER)

    def test_WhatGitDoesNotKnowIsASentence(self):
        with self.assertRaisesRegex(ValueError, "--diff never: git does not know it"):
            self.planted(diff="never")
        with self.assertRaisesRegex(ValueError, "cannot be read"):
            self.planted(patch=self.root / "no.patch")


if __name__ == "__main__":
    unittest.main()

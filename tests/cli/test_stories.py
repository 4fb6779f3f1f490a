"""How failures read, as golden texts: the case files of docs/matrix that its page links to, with the subject of their column,
and mistakes in files of Python. Where the program was built without PyTorch, what needs it is skipped: exit code 77."""

import os
import re
import shutil
import sys
import unittest

from program_case import HERE, ProgramCase

ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = os.path.join(ROOT, "docs", "matrix")
SKIPPED = 77


def linked(*subjects):
    """(subject, case file) of each cell of theirs that differs."""
    with open(os.path.join(ROOT, "docs", "matrix.md"), encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    columns = next(row for row in rows if row[0] == "claim")
    return sorted({(subject, name) for row in rows for subject, cell in zip(columns, row) if subject in subjects
                   for name in re.findall(r"\(matrix/([^)]*)\)", cell)})


class Stories(ProgramCase):
    """The stories of the subjects that every build has."""

    def test_each_says_what_is_wrong_and_how_to_see_it_again(self):
        texts = []
        for subject, name in linked("c10d", "naive"):
            shutil.copy(os.path.join(CASES, name), self.folder)
            texts.append(self.transcript("replay", name, "--subject", subject, "--tier", "sim"))
        self.assertGreaterEqual(len(texts), 20)
        self.assert_golden("stories", "".join(texts))


class NeedsPyTorch(ProgramCase):
    def setUp(self):
        super().setUp()
        status, out, err = self.run_program("run", "sampler.partitions", "--subject", "pytorch", "--tier", "sim", "--cases", "1")
        if status == SKIPPED:
            self.skipTest(out + err)
        shutil.rmtree(self.path())

    def stable(self, text):
        text = re.sub(r"\[W\d{4} [\d:.]+ ", "[WTIME ", text)  # what c10 logs
        return re.sub(r"(?m)^(  rank \d issued collective .*) in .* at wrapped\.cpp:\d+$", r"\1 in PLACE", text)


class PyTorchsStories(NeedsPyTorch):
    """The stories of PyTorch's DistributedDataParallel, in one run, since each start of an interpreter takes seconds."""

    def test_each_says_what_is_wrong_and_how_to_see_it_again(self):
        cases = linked("pytorch")
        os.makedirs(self.path("failures"))
        for _, name in cases:
            shutil.copy(os.path.join(CASES, name), self.path("failures"))
        text = self.stable(self.transcript("run", "--failed", "--subject", "pytorch", "--tier", "sim", "--no-shrink", "--seed", "7"))
        self.assertEqual(text.count("\n✗ "), len(cases), text)
        self.assert_golden("stories_pytorch", text)


# (file, claim, fields that are fixed)
MISTAKES = (
    ("examples/bring_your_own/python/uneven_last_bucket.py", "gradients.match", ()),
    ("examples/bring_your_own/python/average_after_backward.py", "buffers.follow", ()),
    ("examples/bring_your_own/python/average_after_backward.py", "unused", ()),
    ("tests/pytorch/planted/average_left_out.py", "gradients.match", ()),
    ("tests/pytorch/planted/bucket_order_by_rank.py", "gradients.match", ("options.bucket_cap_bytes=1",)),
    ("tests/pytorch/planted/buffers_of_rank_1.py", "buffers.follow", ()),
    ("tests/pytorch/planted/divided_by_samples.py", "training.is_one", ()),
    ("tests/pytorch/planted/divided_by_samples.py", "gradients.match", ()),
    ("tests/pytorch/planted/no_sync_ignored.py", "accumulation.no_sync", ()),
    ("tests/pytorch/planted/own_start.py", "replicas.start", ()),
    ("tests/pytorch/planted/own_start_and_sum.py", "training.is_one", ()),
    ("tests/pytorch/planted/padding_forgotten.py", "sampler.partitions", ()),
    ("tests/pytorch/planted/root_by_rank.py", "replicas.start", ()),
    ("tests/pytorch/planted/undefined_left_out.py", "gradients.undefined", ()),
)


class FilesStories(NeedsPyTorch):
    """The stories of files of Python, each with a mistake."""

    def test_each_says_what_is_wrong_and_how_to_see_it_again(self):
        texts = []
        for file, claim, fields in MISTAKES:
            shutil.copy(os.path.join(ROOT, file), self.folder)
            fixed = [word for field in ("world.size=2", *fields) for word in ("--set", field)]
            texts.append(self.stable(self.transcript(
                "run", claim, "--subject", "python:" + os.path.basename(file), "--tier", "sim", "--seed", "7", "--no-shrink", "-q",
                *fixed)))
            self.assertEqual(texts[-1].count("\n✗ "), 1, texts[-1])
        self.assert_golden("stories_files", "".join(texts))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)

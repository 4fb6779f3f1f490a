#!/usr/bin/env python3
"""replay CASE --as-python: cases as programs of their own. Each case of docs/findings and docs/matrix runs in processes of PyTorch, and
shows what docs/findings.md and docs/matrix.md say of it. LOCKSTEP_APPROVE=1 writes docs/findings/*.py anew. PyTorch takes
.venv-peer; without it those tests are skipped."""

import glob
import json
import os
import re
import subprocess
import unittest

from program_case import APPROVE, HERE, PROGRAM, ProgramCase

ROOT = os.path.dirname(os.path.dirname(HERE))
PEER = os.path.join(ROOT, ".venv-peer", "bin")
FINDINGS = sorted(glob.glob(os.path.join(ROOT, "docs/findings/*.json")))
MATRIX = sorted(glob.glob(os.path.join(ROOT, "docs/matrix/*.json")))
PATIENCE_S = 1700
# Files of the matrix that stand for another subject, and that PyTorch fails too, and why.
FAILS_TOO = {"accumulation.graphs_decide-f31138": "local_graph_is_averaged",
             "accumulation.opaque_outputs_decide_once-d0d8ad": "a backward of the inner module, as in bare_pass_takes_the_reduction",
             "programs.match_single_process-4c01ef": "a conversion, as in converted_and_back"}


def name_of(path):
    return os.path.basename(path)[:-len(".json")]


def failing_on_pytorch():
    """The names of the matrix's files that PyTorch fails."""
    with open(os.path.join(ROOT, "docs/matrix.md"), encoding="utf-8") as file:
        section = re.search(r"(?s)\n## pytorch\n(.*?)\n## ", file.read())[1]
    return set(re.findall(r"\(matrix/([^)]*)\.json\)", section))


class Standalone(ProgramCase):
    def written(self, path):
        """(status, text) of a case as a program."""
        ended = subprocess.run([PROGRAM, "replay", path, "--as-python"], cwd=self.folder, env=self.environment, text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
        return ended.returncode, ended.stdout if ended.returncode == 0 else ended.stderr

    def save(self, path):
        """(ranks, file) of a case's program."""
        status, text = self.written(path)
        self.assertEqual(status, 0, path + ": " + text)
        file = os.path.join(self.folder, name_of(path) + ".py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        return re.search(r"--nproc-per-node (\d+)", text)[1], file

    def worlds(self, paths):
        """{name: {"status", "output"}} of the cases' programs."""
        arguments = [each for path in paths for each in self.save(path)]
        ended = subprocess.run([os.path.join(PEER, "python"), "-B", os.path.join(HERE, "in_worlds.py"), *arguments], cwd=self.folder,
                               text=True, check=True, stdout=subprocess.PIPE, timeout=PATIENCE_S)
        return dict(zip(map(name_of, paths), map(json.loads, ended.stdout.splitlines())))

    def test_a_finding_has_its_program_beside_it(self):
        for path in FINDINGS:
            status, text = self.written(path)
            self.assertEqual(status, 0, text)
            beside = path[:-len("json")] + "py"
            if APPROVE:
                with open(beside, "w", encoding="utf-8") as file:
                    file.write(text)
            with open(beside, encoding="utf-8") as file:
                self.assertEqual(file.read(), text, beside)
            with open(os.path.join(ROOT, "docs/findings.md"), encoding="utf-8") as file:
                self.assertIn("(findings/%s.py)" % name_of(path), file.read())

    @unittest.skipUnless(os.path.exists(PEER), "there is no .venv-peer: ./lockstep setup --peer makes it")
    def test_each_finding_fails_in_processes_of_pytorch_alone(self):
        for name, ended in self.worlds(FINDINGS).items():
            with self.subTest(name):
                self.assertEqual(ended["status"], 1, ended["output"])
                self.assertRegex(ended["output"], r"<-- (differs|one process does not)")

    def test_a_case_without_a_writer_is_refused_in_a_sentence(self):
        for what, value, sentence in (
                ("hooks.average_within_bound", {}, "cases of hooks.average_within_bound are not written as programs of their own yet"),
                ("sync_batch_norm.keeps_buffers_equal_under_ddp", {}, "PyTorch's SyncBatchNorm runs on GPUs alone"),
                ("accumulation.graphs_decide", {"world": {"size": 3}}, "the claim is not about this case"),
                ("accumulation.graphs_decide", {"world": {"size": 2}, "options": {"batched_grad_copy": True}}, "has no batched_grad_copy")):
            file = os.path.join(self.folder, "case.json")
            with open(file, "w", encoding="utf-8") as out:
                json.dump({"lockstep_case": 1, "scenario": what, "value": value}, out)
            status, text = self.written(file)
            self.assertEqual(status, 2, text)
            self.assertIn(sentence, " ".join(text.split()))

    @unittest.skipUnless(os.path.exists(PEER), "there is no .venv-peer: ./lockstep setup --peer makes it")
    def test_torchrun_runs_one(self):
        ranks, file = self.save(os.path.join(ROOT, "docs/findings/backward_twice.json"))
        ended = subprocess.run([os.path.join(PEER, "torchrun"), "--standalone", "--nproc-per-node", ranks, file], cwd=self.folder, text=True,
                               check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
                               env={**self.environment, "TMPDIR": self.folder})
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertRegex(ended.stdout, r"rank 0, after backward 1.*<-- differs")

    @unittest.skipUnless(os.path.exists(PEER), "there is no .venv-peer: ./lockstep setup --peer makes it")
    def test_each_case_of_the_matrix_ends_as_the_matrix_says_of_pytorch(self):
        failing = failing_on_pytorch()
        self.assertGreater(len(failing), 15)
        for name, ended in self.worlds(MATRIX).items():
            with self.subTest(name):
                self.assertEqual(ended["status"], int(name in failing or name in FAILS_TOO), ended["output"])


if __name__ == "__main__":
    unittest.main()

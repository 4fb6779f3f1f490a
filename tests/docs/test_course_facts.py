#!/usr/bin/env python3
"""Checks that pages of docs/course say of PyTorch's DDP what it does. It takes .venv-peer; without it this ends with 77, which
ctest reports as skipped."""

import glob
import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEER = os.path.join(ROOT, ".venv-peer", "bin", "python")


class CourseFacts(unittest.TestCase):
    def test_step_7_says_what_an_unused_parameter_does_to_the_others(self):
        with open(os.path.join(ROOT, "docs/course/07-buckets.md"), encoding="utf-8") as page:
            rows = re.findall(r"(?m)^\| `(False|True)` \| ([\d.]+) \| ([\d.]+) \|$", page.read())
        said = {is_view: [[float(value)] for value in values] for is_view, *values in rows}
        ended = subprocess.run([PEER, "-B", os.path.join(HERE, "pytorch_unused.py")], stdout=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, check=True, timeout=280)
        self.assertEqual(said, json.loads(ended.stdout))

    def test_what_the_pages_quote_of_pytorchs_documentation_is_there(self):
        torch, = glob.glob(os.path.join(ROOT, ".venv-peer/lib/python3*/site-packages/torch"))
        documentation = ""
        for name in ("nn/parallel/distributed.py", "utils/data/distributed.py", "nn/modules/batchnorm.py",
                     "distributed/distributed_c10d.py"):
            with open(os.path.join(torch, name), encoding="utf-8") as file:
                documentation += " ".join(file.read().replace("`", "").split())
        count = 0
        for path in glob.glob(os.path.join(ROOT, "docs/course/[01]*.md")):
            with open(path, encoding="utf-8") as file:
                claim = re.search(r"\*\*An article's claim\.\*\* (.*?)\n\n", file.read(), re.DOTALL)[1]
            if claim.startswith("PyTorch's documentation"):
                for quote in re.findall(r'"([^"]+)"', claim):
                    self.assertIn(" ".join(quote.replace("`", "").split()), documentation, path)
                    count += 1
        self.assertGreater(count, 8)

    def test_step_10_says_that_sync_batch_norm_refuses_the_cpu(self):
        ended = subprocess.run([PEER, "-c", SYNC_BATCH_NORM], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, check=True,
                               timeout=280)
        self.assertIn("expected input tensor to be on GPU", ended.stdout)


SYNC_BATCH_NORM = """
import torch
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
try:
    torch.nn.SyncBatchNorm(1)(torch.ones(2, 1))
except ValueError as error:
    print(error)
"""

if __name__ == "__main__":
    if not os.path.exists(PEER):
        print("skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
        sys.exit(77)
    unittest.main()

#!/usr/bin/env python3
"""Python's PyTorch reads what save_checkpoint() writes, and trains on as C++ does.

usage: test_checkpoint.py PROBE

PROBE is checkpoint_probe. It takes .venv-peer; without it this ends with 77, which ctest reports as skipped. The other
direction needs no Python: checkpoint_test.cpp reads what record.py has recorded.
"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "..", "..", "..", ".venv-peer", "bin", "python")
DEADLINE_S = 120

READS = """
import sys, torch
sys.path.insert(0, sys.argv[2])
from record import OPTIMIZERS, make, train
for name, make_optimizer in OPTIMIZERS:
    whole = torch.load("%s/%s.pt" % (sys.argv[1], name), weights_only=True)
    net = make()
    torch.nn.init.zeros_(net[0].weight)
    optimizer = make_optimizer(net.parameters())
    print(name, net.load_state_dict(whole["model"], strict=True), end=" ")
    optimizer.load_state_dict(whole["optimizer"])
    torch.Generator().set_state(whole["generators"][0][0])
    before = [p.clone() for p in net.parameters()]
    train(net, optimizer, 2)
    later = torch.load("%s/%s_two_steps_later.pt" % (sys.argv[1], name), weights_only=True)["model"]
    worst = max(float((value - later[key]).abs().max()) for key, value in net.state_dict().items())
    moved = max(float((a - b).detach().abs().max()) for a, b in zip(before, net.parameters()))
    print(whole["epoch"], sorted(whole), "equal" if worst < 2e-6 < moved else (worst, moved))
"""


class PythonReads(unittest.TestCase):
    def test_what_cpp_has_saved_and_continues(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROBE, folder], check=True, timeout=DEADLINE_S)
            said = subprocess.run([PEER, "-B", "-c", READS, folder, HERE], stdout=subprocess.PIPE, text=True, check=True,
                                  timeout=DEADLINE_S, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
        self.assertEqual(said.splitlines(), [
            name + " <All keys matched successfully> 7 ['epoch', 'generators', 'lockstep', 'model', 'optimizer'] equal"
            for name in ("sgd", "plain_sgd", "adam", "adamw")])


if __name__ == "__main__":
    PROBE = os.path.abspath(sys.argv.pop(1))
    if not os.path.exists(PEER):
        print("skipped: there is no .venv-peer: ./lockstep setup --peer makes it")
        sys.exit(77)
    unittest.main(verbosity=2)

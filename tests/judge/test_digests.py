"""The digests of the recorder of Python are those of docs/protocol.md, and it recognises losses and what numbers samples.

usage: test_digests.py LOCKSTEP
"""

import json
import os
import re
import subprocess
import unittest

from recorded_case import PYTHON, ROOT, main

# The definition in docs/protocol.md, word by word, beside tensors whose words lie everywhere in what is mixed together.
DIGESTS_BY_DEFINITION = """
import sys, torch
sys.path.insert(0, %r)
from lockstep_recorder import _digests
MOST, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15
def mixed(x):
    x = (((x & MOST) ^ ((x & MOST) >> 30)) * 0xBF58476D1CE4E5B9) & MOST
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MOST
    return x ^ (x >> 31)
KEYS = [mixed(i * GOLDEN) | 1 for i in range(1, 513)]
def by_definition(tensor):
    data = tensor.detach().to_dense().contiguous().numpy().tobytes()
    data += bytes(2048 - len(data) %% 2048)
    total = 0
    for number in range(len(data) // 2048):
        words = [int.from_bytes(data[2048 * number + 8 * j:][:8], "little", signed=True) for j in range(256)]
        hash = sum(word * KEYS[j] + (word >> 32) * KEYS[256 + j] for j, word in enumerate(words))
        total += mixed(hash + (number + 1) * GOLDEN)
    return total & MOST
tensors = [torch.randn(3), torch.randn(2 * 70001 + 1), torch.empty(0), torch.arange(9)[1:], torch.randn(11)[3:],
           torch.randn(4, 6).t(), torch.randn(4)[::4], torch.tensor(True), torch.randn(2, 2, dtype=torch.complex64), torch.eye(3).to_sparse(),
           torch.randn(512), torch.randn(511), torch.randn(1 << 16), torch.randn((1 << 16) + 2), torch.randn(5).half(), torch.randn(()),
           *[torch.randn((1 << 16) - 512 * k) for k in range(3)]]
digests = _digests.digests_of([None, *tensors])
assert digests[0] == _digests.NO_TENSOR
for tensor, (digest, norm) in zip(tensors, digests[1:]):
    assert digest %% (1 << 64) == by_definition(tensor), tensor.shape
    assert abs(norm - tensor.to_dense().flatten().to(torch.complex128).abs().square().sum().sqrt()) < 1e-2, tensor.shape
assert _digests.digests_of([]) == []
"""


# A loss -> the averages that it is made of.
AVERAGES_OF_LOSSES = r"""
import sys
sys.path.insert(0, %r)
import torch
from torch.nn import functional as F
from lockstep_recorder import _losses
logits, targets = torch.randn(6, 5, requires_grad=True), torch.tensor([1, 2, -100, 3, 4, -100])
other, scaled = torch.rand(6, 5), logits * 2
def fails(*_):
    raise AssertionError("the program's hook ran")
with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, fails):
    hooked = F.cross_entropy(scaled, targets)
    hooked_mean = F.l1_loss(scaled, other)
class Odd(torch.Tensor):
    pass
for loss, expected in (
        (F.cross_entropy(scaled, targets), [("nll_loss", 4, 1.0)]),
        (torch.nn.CrossEntropyLoss(ignore_index=1, label_smoothing=0.1)(scaled, targets.abs() %% 5) / 4, [("nll_loss", 5, 1 / 4), ("sum", None, 0.1 / 2)]),
        (F.cross_entropy(scaled.view(2, 5, 3), targets.view(2, 3)), [("nll_loss", 4, 1.0)]),
        (F.cross_entropy(scaled, targets, reduction="sum") / 6, [("sum", None, 1 / 6)]),
        (F.cross_entropy(scaled, targets, reduction="none").mean(), [("mean", 6, 1.0)]),
        (F.mse_loss(scaled, other), [("mse_loss", 30, 1.0)]),
        (F.mse_loss(scaled, other, reduction="sum"), [("sum", None, 1.0)]),
        (F.l1_loss(scaled, other), [("mean", 30, 1.0)]),
        (F.smooth_l1_loss(scaled, other), [("smooth_l1_loss", 30, 1.0)]),
        (F.binary_cross_entropy(scaled.sigmoid(), other), [("binary_cross_entropy", 30, 1.0)]),
        (F.binary_cross_entropy_with_logits(scaled, other), [("binary_cross_entropy_with_logits", 30, 1.0)]),
        (F.cross_entropy(scaled, targets).mean() + 0.1 * scaled[:3].square().mean(), [("nll_loss", 4, 1.0), ("mean", 15, 0.1)]),
        (F.cross_entropy(scaled, targets.as_subclass(Odd)).as_subclass(torch.Tensor), []),
        (hooked, []), (hooked_mean, [("mean", 30, 1.0)]), (logits, []), (torch.tensor(1.0), []), (None, []), ("loss", [])):
    found = _losses.averages_of(loss)
    assert sorted(each[:3] for each in found) == sorted(expected), (loss, found, expected)
    assert all(each[3] is None for each in found), (loss, found)
one, another = torch.ones(5), torch.arange(1.0, 6)
def weights_of(weights, **more):
    return [each[3] for each in _losses.averages_of(F.cross_entropy(scaled, targets, weight=weights, reduction="sum", **more) * 2)]
assert weights_of(one) == weights_of(one.clone()) != weights_of(another) and None not in weights_of(one) + weights_of(another)
positive = [_losses.averages_of(F.binary_cross_entropy_with_logits(scaled, other, pos_weight=each))[0][3] for each in (one, another)]
assert positive[0] != positive[1] and None not in positive
"""
SETTINGS = r"""
import sys
sys.path.insert(0, %r)
import torch
from lockstep_recorder import _models
changed = torch.nn.Linear(4, 4)
del changed.in_features
found = _models.settings_of([changed, torch.nn.Dropout(0.1), torch.nn.Dropout(0.1), torch.nn.Sequential(torch.nn.ReLU())])
assert found == {"Dropout(p=0.1, inplace=False)": 2}, found
"""
# Lists and dicts that number samples or classes, in other orders and with other values.
NUMBERINGS = r"""
import sys
sys.path.insert(0, %r)
import torch
from lockstep_recorder import _objects
class Files(torch.utils.data.Dataset):
    def __init__(self, **attributes):
        self.__dict__.update(attributes)
def numbered(**attributes):
    return _objects.numberings_of(Files(**attributes))
files, labels, rows = ["%%d.png" %% i for i in range(20)], [i %% 3 for i in range(20)], torch.arange(40.).view(20, 2)
classes = {"cat": 0, "dog": 1}
for one, other, is_numbering in (
        ({"files": files}, {"files": files[::-1]}, True), ({"files": [(each, 1) for each in files]}, {"files": [(each, 1) for each in files[::-1]]}, True),
        ({"rows": rows}, {"rows": rows.flip(0)}, True), ({"rows": rows.numpy()}, {"rows": rows.flip(0).numpy()}, True),
        ({"classes": classes}, {"classes": {"cat": 1, "dog": 0}}, True), ({"classes": classes}, {"classes": {"dog": 1, "cat": 0}}, None),
        ({"of": Files(files=files)}, {"of": Files(files=files[::-1])}, True), ({"files": files}, {"files": files[1:] + ["x"]}, False)):
    (a,), (b,) = numbered(**one).values(), numbered(**other).values()
    assert (a[1] == b[1] and a[0] != b[0] if is_numbering else a == b if is_numbering is None else a[1] != b[1]), (one, other)
for nothing in ({"labels": labels}, {"few": files[:3]}, {"objects": [object() for _ in range(20)]}, {"counts": {"a": 1, "b": 1}}, {"empty": torch.empty(20, 0)}):
    assert numbered(**nothing) == {}, nothing
"""
# docs/protocol.md: in which steps models of more than 2^22 elements, and of as many, are digested.
STEPS_OF_LARGE_MODELS = """
import sys, types, torch
sys.path.insert(0, %r)
from lockstep_recorder import _records
def due(elements, values_steps=0):
    named = [("w", torch.zeros(1).expand(elements - 1)), ("none", None), ("b", torch.zeros(1))]
    return [step for step in range(30) if _records.Recorder.is_due(types.SimpleNamespace(step=step, values_steps=values_steps), named)]
assert due((1 << 22) + 1) == [*range(8), 14, 21, 28]
assert due((1 << 22) + 1, 10) == [*range(10), 14, 21, 28]
assert due(1 << 22) == [*range(30)]
"""


class Digests(unittest.TestCase):
    def printed(self, script):
        result = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_digests_of_all_kinds_of_tensors_are_those_of_the_definition(self):
        self.printed(DIGESTS_BY_DEFINITION % os.path.join(ROOT, "recorder", "python"))

    def test_a_large_model_is_digested_at_first_and_then_in_one_step_of_seven(self):
        self.printed(STEPS_OF_LARGE_MODELS % os.path.join(ROOT, "recorder", "python"))

    def test_averages_are_recognised_by_the_graph_of_a_loss(self):
        self.printed(AVERAGES_OF_LOSSES % os.path.join(ROOT, "recorder", "python"))

    def test_layers_say_their_settings_where_they_can(self):
        self.printed(SETTINGS % os.path.join(ROOT, "recorder", "python"))

    def test_what_numbers_samples_is_recognised_in_any_order(self):
        self.printed(NUMBERINGS % os.path.join(ROOT, "recorder", "python"))

    def test_digests_are_those_of_the_protocol(self):
        """docs/protocol.md has a table of them."""
        with open(os.path.join(ROOT, "docs", "protocol.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| (float32|int64) (\[.*\]) \| ([0-9a-f]{16}) \|$", file.read(), re.MULTILINE)
        self.assertEqual(len(rows), 3)
        script = ("import sys, torch; sys.path.insert(0, %r); from lockstep_recorder import _digests as r\n"
                  "print(*['%%016x' %% (r.digests_of([torch.tensor(v, dtype=getattr(torch, d))])[0][0] %% 2**64)"
                  " for d, v in %r])") % (os.path.join(ROOT, "recorder", "python"),
                                          [(dtype, json.loads(values)) for dtype, values, _ in rows])
        self.assertEqual(self.printed(script).split(), [digest for _, _, digest in rows])


if __name__ == "__main__":
    main()

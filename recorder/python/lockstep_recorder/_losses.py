"""Over how many terms a loss averages."""
import collections

import torch

# Autograd's nodes of functions that may average, and what they are the gradients of.
AVERAGES = {"NllLossBackward0": "nll_loss", "NllLoss2DBackward0": "nll_loss", "MseLossBackward0": "mse_loss",
            "SmoothL1LossBackward0": "smooth_l1_loss", "HuberLossBackward0": "huber_loss", "MeanBackward0": "mean",
            "BinaryCrossEntropyBackward0": "binary_cross_entropy",
            "BinaryCrossEntropyWithLogitsBackward0": "binary_cross_entropy_with_logits"}
MEAN, NODES_MOST = 1, 32  # PyTorch's number of that reduction; nodes among which an average is sought.


def averages_of(loss):
    """(function, over how many terms) of the averages that a loss is made of, by the first nodes of its graph."""
    found, nodes = [], collections.deque([loss.grad_fn] if type(loss) is torch.Tensor else [])
    for _ in range(NODES_MOST):
        node = nodes.popleft() if nodes else None
        if node is None:
            continue
        name = type(node).__name__
        terms = terms_of(node, name) if name in AVERAGES else None
        if terms is not None and terms > 1:
            found.append((AVERAGES[name], terms))
        elif name not in AVERAGES or terms == 1:
            nodes.extend(after for after, _ in node.next_functions)
    return found


def terms_of(node, name):
    """None where a node does not average, or where only the program's hooks or classes, or a device, could tell over how much."""
    if name == "MeanBackward0":
        return node._saved_self_sym_numel
    saved = node._raw_saved_target
    if node._saved_reduction != MEAN or getattr(saved, "unpack_hook", True) is not None or type(saved.data) is not torch.Tensor:
        return None
    if not hasattr(node, "_saved_ignore_index"):
        return saved.data.numel()
    target, ignored = saved.data, node._saved_ignore_index
    return (target != ignored - (ignored >> 63 << 64)).sum().item() if target.device.type == "cpu" else None

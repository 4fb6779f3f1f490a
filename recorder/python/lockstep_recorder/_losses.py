"""Over how many terms a loss averages, and how much each counts."""
import collections

import torch

from ._objects import print_of

# Autograd's nodes of functions that may average, and what they are the gradients of.
AVERAGES = {"NllLossBackward0": "nll_loss", "NllLoss2DBackward0": "nll_loss", "MseLossBackward0": "mse_loss",
            "SmoothL1LossBackward0": "smooth_l1_loss", "HuberLossBackward0": "huber_loss", "MeanBackward0": "mean",
            "BinaryCrossEntropyBackward0": "binary_cross_entropy",
            "BinaryCrossEntropyWithLogitsBackward0": "binary_cross_entropy_with_logits"}
MEAN, SUM, NODES_MOST = 1, 2, 32  # PyTorch's numbers of reductions; nodes among which an average is sought.


def averages_of(loss):
    """(function, over how many terms, by what the program multiplies it, a digest of its weights of classes, begins_with_labels, of how many
    terms it is the sum) of the averages that a loss is made of, and of the sums that it multiplies. By the first nodes of its graph."""
    found, nodes = [], collections.deque([(loss.grad_fn, 1.0)] if type(loss) is torch.Tensor else [])
    for _ in range(NODES_MOST):
        node, weight = nodes.popleft() if nodes else (None, None)
        if node is None:
            continue
        name = type(node).__name__
        if name in ("MulBackward0", "DivBackward0"):
            factor = factor_of(node, name == "DivBackward0")
            weight = None if factor is None or weight is None else weight * factor
        terms = terms_of(node, name) if name in AVERAGES else None
        is_sum = name == "SumBackward0" or name in AVERAGES and getattr(node, "_saved_reduction", MEAN) == SUM
        if terms is not None and terms > 1:
            found.append((AVERAGES[name], terms, weight, weights_of(node), begins_with_labels(node, name), None))
        elif is_sum and (weight != 1 or name in AVERAGES):
            summed = terms_of(node, name, SUM) if name in AVERAGES else None
            found.append(("sum", None, weight, weights_of(node), begins_with_labels(node, name), summed))
        if name not in AVERAGES or terms == 1:
            nodes.extend((after, weight) for after, _ in node.next_functions)
    return found


def factor_of(node, divides):
    """By which number a product or a quotient multiplies; 1 where it is one of many elements, None where the loss's own graph, or only
    hooks or a device, could tell."""
    constants = [operand for operand, (after, _) in zip(("self", "other"), node.next_functions) if after is None]
    if len(constants) != 1 or divides and constants == ["self"]:
        return None
    saved = getattr(node, "_raw_saved_" + constants[0])
    if getattr(saved, "unpack_hook", True) is not None or type(saved.data) is not torch.Tensor:
        return None
    value = saved.data
    if value.numel() != 1:
        return 1.0
    if value.device.type != "cpu" or value.is_complex():
        return None
    number = float(value.item())
    return (1 / number if number else None) if divides else number


def weights_of(node):
    """A digest of the weights that the loss gives its classes; None where it has none, or only the program's hooks or a device could tell."""
    for name in ("_raw_saved_pos_weight", "_raw_saved_weight" if hasattr(node, "_saved_ignore_index") else ""):
        saved = getattr(node, name, None)
        if saved is not None and getattr(saved, "unpack_hook", True) is None and type(saved.data) is torch.Tensor:
            return print_of([saved.data]) if saved.data.device.type == "cpu" else None
    return None


def begins_with_labels(node, name):
    """Whether the labels are 0, 1, 2 and so on, one a row, of as many classes a row as all ranks have rows together: features of this rank
    beside those of all ranks. The columns of rank 0 come first, unless the program puts its own there."""
    if name != "NllLossBackward0" or not torch.distributed.is_initialized():
        return False
    target, scores = node._raw_saved_target, node._raw_saved_self
    for saved in (target, scores):
        if getattr(saved, "unpack_hook", True) is not None or type(saved.data) is not torch.Tensor:
            return False
    target, world = target.data, torch.distributed.get_world_size()
    is_of_all = target.dim() == 1 and target.numel() > 1 and tuple(scores.data.shape) == (target.numel(), world * target.numel())
    return is_of_all and world > 1 and target.device.type == "cpu" and torch.equal(target, torch.arange(target.numel()))


def terms_of(node, name, reduction=MEAN):
    """None where a node does not average (or sum), or where only the program's hooks or classes, or a device, could tell over how much."""
    if name == "MeanBackward0":
        return node._saved_self_sym_numel
    saved = node._raw_saved_target
    if node._saved_reduction != reduction or getattr(saved, "unpack_hook", True) is not None or type(saved.data) is not torch.Tensor:
        return None
    if not hasattr(node, "_saved_ignore_index"):
        return saved.data.numel()
    target, ignored = saved.data, node._saved_ignore_index
    return (target != ignored - (ignored >> 63 << 64)).sum().item() if target.device.type == "cpu" else None

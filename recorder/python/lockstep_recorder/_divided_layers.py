"""Layers that a program divides over the ranks by functions of its own: they meet what one gathered, and one reduces what comes of them."""
import collections
import weakref

import torch

from ._collectives import GATHERING, REDUCING

NODES_MOST = 4096  # Of a graph, above what was gathered.


class DividedLayers:
    """Knows the parameters that every graph has between a reduction and a gather."""

    def __init__(self):
        self.gather, self.reduce = set(), set()  # Autograd's nodes of functions that do.
        self.between, self.outside = {}, {}  # References to parameters, by id.

    def send(self, function, op, elements):
        """A reduction of one number is that of a loss."""
        node = getattr(function, "_backward_cls", None)
        if node is not None and op in GATHERING:
            self.gather.add(node)
        elif node is not None and op in REDUCING and elements > 1:
            self.reduce.add(node)

    def look(self, losses):
        if not self.gather or not self.reduce:
            return
        ends, leaves = self.region(loss.grad_fn for loss in losses if type(loss) is torch.Tensor)
        self.outside.update(leaves)
        for end in ends:
            others, leaves = self.region(after for after, _ in end.next_functions)
            is_between = type(end) in self.reduce and any(type(other) in self.gather for other in others)
            (self.between if is_between else self.outside).update(leaves)

    def region(self, begin):
        """The functions that gather or reduce which the graph reaches from these nodes first, and the leaves before them."""
        nodes = collections.deque(dict.fromkeys(node for node in begin if node is not None))
        seen, ends, leaves = set(nodes), [], {}
        while nodes and len(seen) < NODES_MOST:
            node = nodes.popleft()
            if type(node) in self.gather or type(node) in self.reduce:
                ends.append(node)
                continue
            if type(node).__name__ == "AccumulateGrad":
                leaves[id(node.variable)] = weakref.ref(node.variable)
            following = dict.fromkeys(after for after, _ in node.next_functions if after is not None and after not in seen)
            nodes.extend(following)
            seen.update(following)
        return ends, leaves

    def among(self, named):
        """Names of those that ranks divide; a single number is no part of anything."""
        def is_there(references, tensor):
            return id(tensor) in references and references[id(tensor)]() is tensor
        return [name for name, p in named if p.numel() > 1 and is_there(self.between, p) and not is_there(self.outside, p)]

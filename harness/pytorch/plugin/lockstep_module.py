"""A model that lives in C++, as a module of Python."""

import torch


class CppModule(torch.nn.Module):
    """The very tensors of the C++ model: nn.Parameter(...) would be another TensorImpl with a .grad of
    its own. `call` is the model's forward, and `shape` says what becomes of its outputs."""

    def __init__(self, call):
        super().__init__()
        self._call = call
        self._shape = "one"

    def at(self, path, last=torch.nn.Module):
        """The module at the end of the path, made where it is not there."""
        module = self
        for position, part in enumerate(path):
            if part not in module._modules:
                module.add_module(part, (last if position + 1 == len(path) else torch.nn.Module)())
            module = module._modules[part]
        return module

    def hold(self, kind, tensors):
        for name, tensor in tensors:
            *path, leaf = name.split(".")
            getattr(self.at(path), kind)[leaf] = tensor

    def forward(self, x):
        outputs = self._call(x, self._shape)
        if self._shape == "one":
            return outputs[0]
        if self._shape == "opaque":
            return Opaque(outputs[0])
        if self._shape == "list":
            return outputs
        some = (outputs[1], outputs[2:]) if len(outputs) > 1 else None
        return {"first": outputs[0], "others": {"none": None, "some": some}}


class Opaque:
    """An output into which nobody looks."""

    def __init__(self, inside):
        self.inside = inside


def listed(output, shape):
    """All tensors of what forward returned."""
    if shape == "one":
        return [output]
    if shape == "opaque":
        return [output.inside]
    if shape == "list":
        return list(output)
    some = output["others"]["some"]
    return [output["first"]] + ([] if some is None else [some[0], *some[1]])


class SparseEmbedding(torch.nn.Embedding):
    """By its type DistributedDataParallel knows that its gradients are sparse."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.sparse = True


def module_of(call, parameters, buffers, sparse):
    module = CppModule(call)
    for path in sparse:
        module.at(path.split("."), SparseEmbedding)
    module.hold("_parameters", parameters)
    module.hold("_buffers", buffers)
    return module

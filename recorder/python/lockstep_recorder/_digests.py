"""Digests, norms and samples of tensors."""
import ctypes
import functools
import itertools
import sys

import torch

from ._state import here

GOLDEN, FIRST, SECOND = (word - (1 << 64) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
# Bytes that are hashed together, of a tensor that is hashed together with others, and of a part of a large one.
ROW, SMALL, CHUNK = 2048, 1 << 16, 1 << 18
NO_TENSOR = (0, -1.0)


def mix(words):
    """Each word in place: docs/protocol.md, section 3. PyTorch shifts signed words in ones."""
    for shift, factor in ((30, FIRST), (27, SECOND), (31, None)):
        words ^= (words >> shift).bitwise_and_((1 << (64 - shift)) - 1)
        if factor:
            words *= factor
    return words


@functools.lru_cache(maxsize=None)
def keys(device):
    return mix(torch.arange(1, 1 + 2 * ROW // 8, device=device) * GOLDEN).bitwise_or_(1).split(ROW // 8)


def parts_of(data, most):
    """Rows of bytes in parts of at most so many, as words."""
    return data.view(torch.int64).view(-1, ROW // 8).split(most // ROW)


def hashes_of(parts):
    """The hashes of the rows in each part, in order. CUDA has no matrix products of integers."""
    whole, half = keys(parts[0].device)
    if parts[0].device.type != "cpu":
        return torch.cat([(rows * whole).sum(1) + ((rows >> 32) * half).sum(1) for rows in parts])
    if not hasattr(here, "scratch"):  # Memory that is taken anew costs more than what is done in it.
        with torch.inference_mode(False):
            here.scratch = torch.empty(CHUNK // ROW, ROW // 8, dtype=torch.int64, device="cpu")
    scratch, of_words, of_halves = here.scratch, [], []
    for rows in parts:
        shifted = torch.bitwise_right_shift(rows, 32, out=scratch[:rows.shape[0]])
        of_words.append(torch.mv(rows, whole))
        of_halves.append(torch.mv(shifted, half))
    return torch.cat(of_words).add_(torch.cat(of_halves))


def bytes_in(tensor):
    """Those of a contiguous tensor, where words of 8 bytes can be read."""
    data = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    return data.clone() if data.storage_offset() % 8 else data


def summed(hashes, numbers, ends):
    """The sums over rows that lie together, up to each end. The first end is 0."""
    sums = mix(hashes.add_(numbers)).cumsum(0)
    sums = torch.cat([sums.new_zeros(1), sums])[ends]
    return sums[1:] - sums[:-1]


@functools.lru_cache(maxsize=64)
def layout_of(sizes, device):
    """The layout of tensors with so many bytes: zeros that fill the last row of each, and the numbers and ends of the rows that are hashed
    together: those of small tensors, and the last ones of large tensors."""
    with torch.inference_mode(False):
        zeros = torch.zeros(ROW, dtype=torch.uint8, device=device)
        last = [1 + size // ROW for size in sizes]
        numbers = [n for size, end in zip(sizes, last) for n in range(1 if size < SMALL else end, 1 + end)]
        ends = itertools.accumulate([0] + [end if size < SMALL else 1 for size, end in zip(sizes, last)])
        return ([zeros[size % ROW:] for size in sizes], torch.tensor(numbers, device=device) * GOLDEN,
                torch.tensor(list(ends), device=device))


def sums_of_hashes(tensors):
    """The digests of contiguous tensors on one device. The rows of large ones are hashed in parts, so that intermediate tensors
    stay small."""
    device, data = tensors[0].device, [bytes_in(t) for t in tensors]
    most = CHUNK if device.type == "cpu" else 1 << 25
    sizes = tuple([each.numel() for each in data])
    zeros, numbers, ends = layout_of(sizes, device)
    gathered, parts = [], []
    for each, size, fill in zip(data, sizes, zeros):
        if size >= SMALL:
            parts += parts_of(each[:size - size % ROW], most)
            each = each[size - size % ROW:]
        gathered += each, fill
    sums = summed(hashes_of(parts_of(torch.cat(gathered), most)), numbers, ends)
    if parts:
        counts = [size // ROW if size >= SMALL else 0 for size in sizes]
        numbers = torch.arange(1, 1 + max(counts), device=device) * GOLDEN
        ends = torch.tensor([0, *itertools.accumulate(counts)], device=device)
        sums += summed(hashes_of(parts), torch.cat([numbers[:count] for count in counts]), ends)
    return sums


def norms_of(tensors):
    """Euclidean, of contiguous tensors on one device, as one tensor."""
    by_dtype = {}
    for number, tensor in enumerate(tensors):
        by_dtype.setdefault(tensor.dtype, []).append(number)
    norms = []
    for dtype, numbers in by_dtype.items():
        same = [tensors[n] for n in numbers]
        if not dtype.is_floating_point and not dtype.is_complex:
            same = [t.double() for t in same]
        norms.append(torch.stack(torch._foreach_norm(same) if hasattr(torch, "_foreach_norm") and not dtype.is_complex else
                                 [torch.linalg.vector_norm(t) for t in same]))
    if len(norms) == 1:
        return norms[0]
    places = sorted(range(len(tensors)), key=list(itertools.chain(*by_dtype.values())).__getitem__)
    return torch.cat([each.double() for each in norms])[torch.tensor(places, device=tensors[0].device)]


def digests_of(tensors):
    """(digest, norm) of each plain tensor; NO_TENSOR for None. One transfer from each device for all."""
    result, by_device = [NO_TENSOR] * len(tensors), {}
    for number, tensor in enumerate(tensors):
        if tensor is not None:
            by_device.setdefault(tensor.device, []).append(number)
    with torch.no_grad():
        for numbers in by_device.values():
            flat = [(t if t.layout is torch.strided else t.to_dense()).contiguous() for t in (tensors[n] for n in numbers)]
            for number, pair in zip(numbers, zip(sums_of_hashes(flat).tolist(), norms_of(flat).tolist())):
                result[number] = pair
    return result


def is_dtensor(tensor):
    return isinstance(tensor, getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ()))


def plain_tensor(tensor):
    """This rank's part of the tensor, as one for which no subclass's code runs. Throws where there is none."""
    if is_dtensor(tensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise TypeError("a DTensor of partial sums")
        tensor = tensor._local_tensor
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError("a " + type(tensor).__name__)
    if tensor.device.type == "meta":
        raise TypeError("a tensor without data")
    return tensor.detach() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else tensor.detach().as_subclass(torch.Tensor)


def bytes_of(tensor):
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    tensor = tensor.cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def sample_of(tensor, most):
    """`most` elements of a larger tensor, one of each part of it, the same ones of each tensor of its size."""
    count = tensor.numel()
    if count <= most:
        return tensor
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    parts = torch.arange(most, device=tensor.device)
    places = parts * count // most + (parts * 0x9E3779B1 % (1 << 32) * (count // most) >> 32)
    return tensor.reshape(-1)[places] if tensor.is_contiguous() else tensor[torch.unravel_index(places, tensor.shape)]


def moved(tensor, generator):
    """Each element one unit in the last place up or down, as drawn; zeros stay. The place is that of the format in which the
    model computes, so that autocast's counts where it is on. Gradients flow through it."""
    if not torch.is_tensor(tensor) or not tensor.is_floating_point() or tensor.element_size() == 1:
        return tensor
    device = tensor.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
    with torch.no_grad():
        before = tensor.detach().to(dtype).contiguous()
        words = before.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[before.element_size()])
        ups = torch.randint(0, 2, words.shape, generator=generator).mul_(2).sub_(1)
        after = (words + ups.to(words)).view(dtype)
        after = torch.where((before != 0) & after.isfinite(), after, before)
        step = after.to(tensor.dtype) - before.to(tensor.dtype)
    return tensor + step


@functools.lru_cache(maxsize=None)
def dtype_name(dtype):
    return str(dtype).replace("torch.", "")

"""Does in PyTorch what "norm=" of nccl_probe.cpp does: torch.nn.SyncBatchNorm on CUDA, and on the CPU, which that does
not take, its definition: batch normalisation of all ranks' batches in one process.

usage: sync_batch_norm_in_pytorch.py cpu WORLD_SIZE             prints a line for each rank
       sync_batch_norm_in_pytorch.py cuda BACKEND DEVICE_INDEX  one rank of torchrun's environment, a line
"""

import sys

import torch
import torch.distributed as dist


def pattern(shape, step, begin, half, divisor, device):
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) * step + begin).remainder(2 * half + 1) - half
    return (numbers.float() / divisor).view(shape).to(device)


def given(rank, device):
    return pattern([4 + rank, 3, 5], 7, 11 * rank, 8, 4.0, device).requires_grad_()


def printed(named):
    return "normalised " + "".join(
        "%s: %s;" % (name, " ".join("%.6f" % number for number in tensor.detach().cpu().double().flatten().tolist()))
        for name, tensor in named)


def lines_of_the_definition(size):
    inputs = [given(rank, "cpu") for rank in range(size)]
    weights = [pattern([3], 1, 3, 2, 2.0, "cpu").requires_grad_() for _ in inputs]
    biases = [pattern([3], 1, 0, 2, 4.0, "cpu").requires_grad_() for _ in inputs]
    mean, var = torch.zeros(3), torch.ones(3)
    whole = torch.nn.functional.batch_norm(torch.cat(inputs), mean, var, training=True)
    parts = whole.split([len(each) for each in inputs])
    outputs = [part * weight.view(1, 3, 1) + bias.view(1, 3, 1) for part, weight, bias in zip(parts, weights, biases)]
    sum((output * pattern(output.shape, 5, 1, 3, 2.0, "cpu")).sum() for output in outputs).backward()
    return [printed([("output", output), ("input.grad", own.grad), ("weight.grad", weight.grad), ("bias.grad", bias.grad),
                  ("running_mean", mean), ("running_var", var)])
            for output, own, weight, bias in zip(outputs, inputs, weights, biases)]


def line_of_pytorchs(backend, index):
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    dist.init_process_group(backend)
    layer = torch.nn.SyncBatchNorm(3, device=device)
    with torch.no_grad():
        layer.weight.copy_(pattern([3], 1, 3, 2, 2.0, device))
        layer.bias.copy_(pattern([3], 1, 0, 2, 4.0, device))
    own = given(dist.get_rank(), device)
    output = layer(own)
    (output * pattern(output.shape, 5, 1, 3, 2.0, device)).sum().backward()
    line = printed([("output", output), ("input.grad", own.grad), ("weight.grad", layer.weight.grad),
                 ("bias.grad", layer.bias.grad), ("running_mean", layer.running_mean),
                 ("running_var", layer.running_var)])
    dist.destroy_process_group()
    return line


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        print("\n".join(lines_of_the_definition(int(sys.argv[2]))))
    else:
        print(line_of_pytorchs(sys.argv[2], int(sys.argv[3])))

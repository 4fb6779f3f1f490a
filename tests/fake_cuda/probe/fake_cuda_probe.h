#pragma once

// For test_fake_cuda.py: one rank of a world over the real ProcessGroupNCCL, with the stand-in for
// CUDA and NCCL loaded before it. Does what its arguments say, one after another, a line each: the
// verb, how long it took, what it said. Returns 1 where one of them threw.
int fake_cuda_probe(int count, char** arguments);

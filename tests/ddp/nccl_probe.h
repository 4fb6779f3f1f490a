#pragma once

// For test_nccl.py, in programs of its own, since what LibTorch has been asked and what has been
// loaded hold for a process. Does what its arguments say, one after another, a line each. Returns 1
// where one of them threw.
int nccl_probe(int count, char** arguments);

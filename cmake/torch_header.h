// The torch headers that every torch file of this tree may include, and what nearly every file of
// the harness includes; precompiled once. That ddp/ sees JSON by it is no leave to use it.
#pragma once

#include "cmake/plain_header.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/torch.h>

// The collectives of a program, beside those of its training.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep {

struct ProgramCollective {
  // "all_reduce", "reduce", "broadcast", "all_gather", "gather" or "scatter", as torch.distributed
  // has them.
  std::string name;
  at::Tensor tensor;  // that of this rank; what is received is written into it, or returned
  // The reduction of all_reduce and reduce: "sum", "avg", "product", "min" or "max".
  std::string reduction = "sum";
  int root = 0;                   // the destination or the source
  std::vector<at::Tensor> parts;  // of scatter, on its source: one for each rank
};

}  // namespace lockstep

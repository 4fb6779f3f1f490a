#include "ddp/hooks/orthonormal.h"

#include <torch/torch.h>

#include <limits>

namespace lockstep {

namespace {

double roundoff(at::ScalarType dtype) {
  return dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                              : std::numeric_limits<float>::epsilon();
}

}  // namespace

at::Tensor orthonormal(const at::Tensor& columns) {
  at::Tensor out = at::zeros_like(columns, at::MemoryFormat::Contiguous);
  const double least = 16.0 * roundoff(columns.scalar_type());
  for (std::int64_t i = 0; i < columns.size(1); ++i) {
    at::Tensor column = columns.narrow(1, i, 1);
    const at::Tensor before = out.narrow(1, 0, i);
    const at::Tensor length_before = column.norm();
    // Twice: what rounding leaves along the others after the first time is gone after the second.
    if (i > 0) {
      for (int time = 0; time < 2; ++time) column = column - before.mm(before.t().mm(column));
    }
    const at::Tensor length = column.norm();
    const at::Tensor is_nothing = length <= length_before * least;
    out.narrow(1, i, 1).copy_(at::where(is_nothing, at::zeros_like(column), column / length));
  }
  return out;
}

}  // namespace lockstep

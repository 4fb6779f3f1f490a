#include "scenarios/sync_batch_norm/output_layout.h"

#include "harness/base/values.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/tensors.h"

#include <utility>

namespace lockstep::scenarios::sync_batch_norm {

std::vector<int64_t> layout_of(const at::Tensor& tensor) {
  const bool is_flat = tensor.dim() < 4;
  const auto last =
      tensor.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  return {tensor.is_contiguous(), !is_flat && tensor.is_contiguous(last)};
}

std::vector<TensorValue> expected_layouts(const Layer& c) {
  std::vector<TensorValue> out;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto input = input_of(c, 0, rank);
    const bool is_kept = c.layout == LayerLayout::channels_last;
    out.push_back(int64_values(layout_of(is_kept ? input : input.contiguous())));
  }
  return out;
}

Findings outputs_are_laid_out_like_inputs(const Layer& c, const History& h) {
  auto anew = c;
  anew.layout = LayerLayout::contiguous;
  const auto expected = expected_layouts(c);
  std::vector<Comparison> rows;
  for (int s = 0; s < c.steps; ++s)
    rows.push_back(
        {.row = h.row({s, "forward"}, kOutputLayout), .expected = expected, .explanations = [anew] {
           return Explanations{recorded_instead(
               {"laid_out_anew", "contiguous, where the input's channels are last"},
               expected_layouts(anew))};
         }});
  return equal("An output must be laid out in memory like its input, or contiguous", rows);
}

}  // namespace lockstep::scenarios::sync_batch_norm

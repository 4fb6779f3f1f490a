#include "harness/world/rank_context.h"

#include "harness/process/journal.h"
#include "harness/world/injector.h"
#include "harness/world/tensors.h"

#include <stdexcept>

namespace lockstep {

c10::intrusive_ptr<c10d::ProcessGroup> RankContext::group() {
  if (!group_) group_ = parts_.make_group();
  return group_;
}

std::filesystem::path RankContext::scratch() {
  if (scratch_.empty()) scratch_ = parts_.make_scratch();
  return scratch_;
}

void RankContext::enter(int step, std::string_view phase) {
  const Moment moment{step, std::string(phase)};
  parts_.journal.append(FrameKind::moment, to_json(moment));
  parts_.injector.at_moment(moment);
}

void RankContext::record(std::string_view name, const at::Tensor& value) {
  if (!value.defined())
    throw std::invalid_argument("rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                                " was to record '" + std::string(name) +
                                "', which is an undefined tensor");
  const at::Tensor plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous();
  parts_.journal.append(FrameKind::observation,
                        {{"name", std::string(name)},
                         {"dtype", dtype_word(plain.scalar_type())},
                         {"shape", plain.sizes().vec()}},
                        {static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
}

void RankContext::record(std::string_view name, const std::vector<int64_t>& values) {
  parts_.journal.append(
      FrameKind::observation,
      {{"name", std::string(name)}, {"dtype", "int64"}, {"shape", {values.size()}}},
      std::as_bytes(std::span(values)));
}

}  // namespace lockstep

#include "recorder/cpp/comparison.h"

#include "harness/base/text.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <sys/stat.h>

namespace lockstep {

namespace {

constexpr int kNumberMost = 1 << 20;

int whole_number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || *text == '\0') return 0;
  const auto number = parsed_int(text);
  if (!number || *number < 0 || *number > kNumberMost)
    throw std::runtime_error("lockstep::Recorder: " + std::string(variable) + " is '" + text +
                             "'; expected a whole number");
  return static_cast<int>(*number);
}

}  // namespace

ComparisonOptions ComparisonOptions::of_environment() {
  return {.values_steps = whole_number("LOCKSTEP_RECORD_VALUES"),
          .perturbed = whole_number("LOCKSTEP_RECORD_PERTURB")};
}

std::filesystem::path folder_of(const ComparisonOptions& options,
                                const std::filesystem::path& folder) {
  if (options.perturbed == 0) return folder;
  ::mkdir(folder.c_str(), 0700);  // HistoryFile says why nothing can be written there
  return folder / ("perturbed-" + std::to_string(options.perturbed));
}

std::vector<std::byte> elements_of(std::span<const at::Tensor> tensors) {
  std::vector<std::byte> all;
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    auto values = tensor.detach();
    if (values.layout() != at::kStrided) values = values.to_dense();
    values = values.cpu().contiguous();
    const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
    all.insert(all.end(), bytes, bytes + values.nbytes());
  }
  return all;
}

void move_by_one_place(const at::Tensor& parameter, const at::Generator& generator) {
  if (!parameter.is_floating_point() || parameter.element_size() == 1) return;
  const at::NoGradGuard no_grad;
  const auto before = parameter.detach().contiguous();
  const auto words = before.view(before.element_size() == 2   ? at::kShort
                                 : before.element_size() == 4 ? at::kInt
                                                              : at::kLong);
  const auto ups = at::randint(0, 2, words.sizes(), generator, at::kLong).mul_(2).sub_(1);
  const auto after = (words + ups.to(words.options())).view(before.scalar_type());
  parameter.detach().copy_(at::where(before.ne(0).logical_and(after.isfinite()), after, before));
}

}  // namespace lockstep

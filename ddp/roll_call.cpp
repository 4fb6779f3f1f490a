#include "ddp/roll_call.h"

#include "ddp/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <bit>
#include <string>

namespace lockstep {

namespace {

std::string text_of(NextStep step) {
  switch (step) {
    case NextStep::out_of_inputs:
      return "finish()";
    case NextStep::local_forward:
      return "a local forward (inside no_sync, or without gradients)";
    case NextStep::synchronised_forward:
      return "a synchronised forward";
  }
  return "nothing known";
}

}  // namespace

std::vector<NextStep> call_roll(Communicator& communicator, NextStep mine) {
  const auto mark = std::bit_cast<std::int64_t>(fingerprint("the roll call of a join"));
  at::Tensor digest = at::empty({2}, at::kLong);
  auto* const words = digest.data_ptr<std::int64_t>();
  words[0] = mark;
  words[1] = static_cast<std::int64_t>(mine);
  std::vector<NextStep> all;
  bool are_alike = true;
  auto common = NextStep::out_of_inputs;
  for (const at::Tensor& each : communicator.gather(digest, "roll call of a join")) {
    const auto* const said = each.const_data_ptr<std::int64_t>();
    all.push_back(static_cast<NextStep>(said[1]));
    const bool is_out = all.back() == NextStep::out_of_inputs;
    if (common == NextStep::out_of_inputs) common = all.back();
    are_alike = are_alike && said[0] == mark && (is_out || all.back() == common);
  }
  if (are_alike) return all;
  disagree(communicator, encode({.statements = {{"what comes next in a join", text_of(mine)}},
                                 .obstacle = std::nullopt}));
}

void require_even(const std::vector<NextStep>& all, std::int64_t forward_count) {
  std::vector<std::size_t> out, going_on;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    (all[rank] == NextStep::out_of_inputs ? out : going_on).push_back(rank);
  }
  if (out.empty() || going_on.empty()) return;
  throw UnevenInputsError("inputs are uneven: " + name_ranks(out) +
                          (out.size() == 1 ? " has" : " have") + " none left after " +
                          std::to_string(forward_count) +
                          (forward_count == 1 ? " forward" : " forwards") + " of the join, and " +
                          name_ranks(going_on) + (going_on.size() == 1 ? " has" : " have") +
                          " more; every rank stops here (throw_on_early_termination)");
}

}  // namespace lockstep

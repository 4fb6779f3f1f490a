#include "ddp/module/join_sync.h"

#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <bit>
#include <string>

namespace lockstep {

namespace {

constexpr std::int64_t kSendsBuffers = 16, kJoinable = 32;

std::string text_of(const NextStep& step, const std::vector<std::string>& joinables) {
  const std::string buffers = step.sends_buffers ? " that sends buffers" : "";
  switch (step.kind) {
    case NextStep::Kind::out_of_inputs:
      return "finish()";
    case NextStep::Kind::local_forward:
      return "a local forward" + buffers + " (inside no_sync, or without gradients)";
    case NextStep::Kind::synchronised_forward:
      return "a synchronised forward" + buffers;
    case NextStep::Kind::backward:
      return "a backward pass";
    case NextStep::Kind::call_of_joinable:
      return "a call of '" + joinables[step.joinable] + "' (joinable " +
             std::to_string(step.joinable) + " of the join)";
  }
  return "nothing known";
}

std::int64_t word_of(const NextStep& step) {
  return static_cast<std::int64_t>(step.kind) + (step.sends_buffers ? kSendsBuffers : 0) +
         kJoinable * static_cast<std::int64_t>(step.joinable);
}

NextStep step_of(std::int64_t word) {
  return {.kind = static_cast<NextStep::Kind>(word % kSendsBuffers),
          .sends_buffers = word % kJoinable >= kSendsBuffers,
          .joinable = static_cast<std::size_t>(word / kJoinable)};
}

}  // namespace

JoinSync synchronise_join(Communicator& communicator, const NextStep& mine,
                          const std::vector<std::string>& joinables) {
  const auto mark = std::bit_cast<std::int64_t>(fingerprint("the synchronisation of a join"));
  at::Tensor digest = at::empty({2}, at::kLong);
  auto* const words = digest.data_ptr<std::int64_t>();
  words[0] = mark;
  words[1] = word_of(mine);
  JoinSync sync;
  bool are_alike = true;
  const auto all = communicator.gather(digest, "synchronisation of a join");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto* const said = all[rank].const_data_ptr<std::int64_t>();
    are_alike = are_alike && said[0] == mark;
    const NextStep step = step_of(said[1]);
    if (step.kind == NextStep::Kind::out_of_inputs) {
      sync.exhausted.push_back(rank);
      continue;
    }
    if (sync.active.empty()) sync.next = step;
    are_alike = are_alike && step == sync.next;
    sync.active.push_back(rank);
  }
  if (are_alike) return sync;
  disagree(communicator,
           encode({.properties = {{"what comes next in a join", text_of(mine, joinables)}},
                   .validation_error = std::nullopt}));
}

void require_even(const JoinSync& sync, std::int64_t forward_count, std::int64_t call_count) {
  if (sync.exhausted.empty() || sync.active.empty()) return;
  const auto has = [](const std::vector<std::size_t>& ranks) {
    return name_ranks(ranks) + (ranks.size() == 1 ? " has" : " have");
  };
  // True of a loop without forwards.
  const bool has_calls_alone = forward_count == 0 && call_count > 0;
  const std::int64_t count = has_calls_alone ? call_count : forward_count;
  const std::string step = has_calls_alone ? " call" : " forward";
  throw UnevenInputsError(
      "inputs are uneven: " + has(sync.exhausted) + " none left after " + std::to_string(count) +
      step + (count == 1 ? "" : "s") +
      (has_calls_alone ? " of joinables in the join, and " : " of the join, and ") +
      has(sync.active) + " more; every rank stops here (throw_on_early_termination)");
}

}  // namespace lockstep

// A join, as its guard sees it and as its instance does.
#include "ddp/join.h"

#include "ddp/agreement.h"
#include "ddp/buffers.h"
#include "ddp/communicator.h"
#include "ddp/data_parallel_core.h"
#include "ddp/errors.h"
#include "ddp/layers_over_ranks.h"
#include "ddp/reducer.h"
#include "ddp/roll_call.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

std::string text_of(const JoinOptions& options) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return std::string("throw_on_early_termination ") + text(options.throw_on_early_termination) +
         ", enable " + text(options.enable);
}

// Why there can be no such join, if there can be none. Nothing stands against one that is disabled.
std::optional<std::string> obstacle_to(const JoinOptions& options, bool another_is_under_way) {
  if (!options.enable) return std::nullopt;
  if (another_is_under_way) {
    return "join() was called while a join of this instance is under way; finish() that one first";
  }
  if (!options.throw_on_early_termination) {
    return "join() needs throw_on_early_termination: that ranks without inputs stand in for what "
           "their peers send is not in this version";
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<JoinUnderWay> DataParallelCore::begin_join(const JoinOptions& options) {
  tell_peers_if_it_throws([&] {
    notice_->set_moment(++moment_);
    reducer_->check_finished(/*lag=*/1);
    agree(*communicator_, {.statements = {{"what comes next in a join", "join()"},
                                          {"the options of join", text_of(options)}},
                           .obstacle = obstacle_to(options, join_ != nullptr)});
  });
  auto begun = std::make_shared<JoinUnderWay>();
  begun->options = options;
  if (options.enable) join_ = begun;
  return begun;
}

std::string DataParallelCore::text_of_join() const {
  return join_ ? "one with " + text_of(join_->options) : "none";
}

// Before anything of this forward is sent. What sends nothing is not counted: ranks may evaluate as
// they like.
void DataParallelCore::take_part_in_join(bool synchronises_buffers) {
  const bool sends = at::GradMode::is_enabled() || synchronises_buffers ||
                     some_layer_is_in_training_over_ranks(*module_);
  if (!sends) return;
  look_who_has_inputs(synchronises_gradients() ? NextStep::synchronised_forward
                                               : NextStep::local_forward);
  ++join_->forward_count;
}

void DataParallelCore::look_who_has_inputs(NextStep mine) {
  const auto all = call_roll(*communicator_, mine);
  try {
    require_even(all, join_->forward_count);
  } catch (const UnevenInputsError&) {
    std::exchange(join_, nullptr)->ended = "uneven inputs ended it";
    throw;
  }
}

void DataParallelCore::finish_join(JoinUnderWay& join) {
  if (!join.ended.empty()) {
    throw UsageError("rank " + std::to_string(communicator_->rank()) +
                     ": finish() was called of a join that is over: " + join.ended);
  }
  if (join.options.enable) {
    tell_peers_if_it_throws([&] {
      notice_->set_moment(++moment_);
      reducer_->check_finished(/*lag=*/1);
      look_who_has_inputs(NextStep::out_of_inputs);
    });
    join_.reset();
  }
  join.ended = "it was finished";
}

// Peers may wait for this rank in their next forward. What report_failure() tells later stands in
// place of this.
void DataParallelCore::leave_join(JoinUnderWay& join) noexcept {
  if (!join.ended.empty()) return;
  try {
    join.ended = "it was left without finish()";
    if (!join.options.enable) return;
    join_.reset();
    const std::string sentence = std::uncaught_exceptions() > exceptions_at_start_
                                     ? "an exception left its join, which was not finished"
                                     : "it left its join without finish()";
    notice_->post_for_now(sentence);
    reducer_->fail_unless_failed(sentence);
  } catch (const std::exception&) {
    // Out of memory for a sentence: peers hear of it at their deadline.
  }
}

Join::Join(std::shared_ptr<DataParallelCore> core, const JoinOptions& options)
    : core_(std::move(core)), state_(core_->begin_join(options)) {}

Join::~Join() {
  if (core_) core_->leave_join(*state_);
}

void Join::finish() {
  if (!core_) throw UsageError("finish() was called of a join that was moved from");
  core_->finish_join(*state_);
}

}  // namespace lockstep

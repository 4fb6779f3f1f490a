// The guard of a join, and its instance's part.
#include "ddp/join.h"

#include "ddp/comm/communicator.h"
#include "ddp/consistency/agreement.h"
#include "ddp/consistency/rank_description.h"
#include "ddp/errors.h"
#include "ddp/module/buffers.h"
#include "ddp/module/core.h"
#include "ddp/module/join_sync.h"
#include "ddp/module/join_under_way.h"
#include "ddp/module/sync_bn_group.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

std::vector<Property> properties_of(const JoinUnderWay& join) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  const JoinOptions& options = join.options;
  std::string joinables;
  for (const auto& each : join.joinables)
    joinables += each ? " '" + each->name() + "'" : std::string(" null");
  return {{"what comes next in a join", "join()"},
          {"join's joinables", joinables.empty() ? "none" : joinables.substr(1)},
          {"join's throw_on_early_termination", text(options.throw_on_early_termination)},
          {"join's divide_by_initial_world_size", text(options.divide_by_initial_world_size)},
          {"join's enable", text(options.enable)}};
}

// The active ranks had inputs in this step; without any, nothing changes.
void note(const JoinSync& sync, JoinUnderWay& join) {
  if (!sync.active.empty()) join.last_to_join = static_cast<int>(sync.active.back());
}

int divisor_of(const JoinSync& sync, const JoinOptions& options) {
  const std::size_t active = sync.active.size();
  return static_cast<int>(options.divide_by_initial_world_size ? active + sync.exhausted.size()
                                                               : active);
}

}  // namespace

// A disabled join is always valid.
std::optional<std::string> DataParallelCore::validation_error_to(
    const JoinOptions& options, const std::vector<std::shared_ptr<Joinable>>& joinables) const {
  if (auto error = JoinUnderWay::validation_error_to(joinables)) return error;
  if (!options.enable) return std::nullopt;
  if (join_) {
    return "join() was called while a join of this instance is under way; finish() that one first";
  }
  if (options.throw_on_early_termination) return std::nullopt;
  const std::string subject = "join() without throw_on_early_termination ";
  const std::string layers = text_of_layers_over_ranks(*module_, options_.process_group);
  if (layers != "none") {
    return subject + "and SyncBatchNorm (" + layers +
           "): a rank without inputs cannot shadow what they exchange in forward";
  }
  if (options_.static_graph) {
    return subject +
           "and static_graph: a rank without inputs in the first pass does not learn "
           "what its graph is";
  }
  return std::nullopt;
}

std::shared_ptr<JoinUnderWay> DataParallelCore::begin_join(
    const JoinOptions& options, std::vector<std::shared_ptr<Joinable>> joinables) {
  auto begun = std::make_shared<JoinUnderWay>();
  begun->options = options;
  begun->joinables = std::move(joinables);
  report_if_it_throws([&] {
    notice_->begin_other();
    reducer_->check_finished(/*lag=*/1);
    agree(*communicator_, {.properties = properties_of(*begun),
                           .validation_error = validation_error_to(options, begun->joinables)});
  });
  if (options.enable) {
    join_ = begun;
    has_begun_a_join_ = true;
    arm_join();
  }
  return begun;
}

// Starts the join on the current group.
void DataParallelCore::arm_join() {
  join_->forward_count = join_->call_count = 0;
  join_->last_to_join = communicator_->world_size() - 1;
  join_->listen([this](std::size_t joinable) {
    report_if_it_throws([&] {
      look_who_has_inputs({.kind = NextStep::Kind::call_of_joinable, .joinable = joinable});
      ++join_->call_count;
    });
  });
  if (join_->options.throw_on_early_termination) return;
  reducer_->ask_before_each_pass([join = join_, communicator = communicator_] {
    const JoinSync sync =
        synchronise_join(*communicator, {.kind = NextStep::Kind::backward}, join->names());
    note(sync, *join);
    return divisor_of(sync, join->options);
  });
}

std::string DataParallelCore::text_of_join() const {
  if (!join_) return "none";
  if (join_->options.throw_on_early_termination) return "one that throws";
  return std::string("one that divides by ") +
         (join_->options.divide_by_initial_world_size ? "the world size" : "who has inputs");
}

// Called before this forward sends anything. A forward that sends nothing is not counted: ranks may
// evaluate independently. Returns the rank whose buffers are sent.
int DataParallelCore::take_part_in_join(bool sends_buffers) {
  const bool sends =
      at::GradMode::is_enabled() || sends_buffers || some_layer_is_in_training_over_ranks(*module_);
  if (!sends) return 0;
  const auto kind = synchronises_gradients() ? NextStep::Kind::synchronised_forward
                                             : NextStep::Kind::local_forward;
  look_who_has_inputs({.kind = kind, .sends_buffers = sends_buffers});
  ++join_->forward_count;
  return join_->options.throw_on_early_termination ? 0 : join_->last_to_join;
}

JoinSync DataParallelCore::look_who_has_inputs(const NextStep& mine) {
  JoinSync sync = synchronise_join(*communicator_, mine, join_->names());
  note(sync, *join_);
  if (!join_->options.throw_on_early_termination) return sync;
  try {
    require_even(sync, join_->forward_count, join_->call_count);
  } catch (const UnevenInputsError&) {
    std::exchange(join_, nullptr)->end("uneven inputs ended it");
    throw;
  }
  return sync;
}

// After the last step there may be no forward that would report its error on a device, and the
// caller may save the last rank's state next. So the host waits here, as it does for join_sync.
void DataParallelCore::finish_join(JoinUnderWay& join) {
  if (!join.ended.empty()) {
    throw UsageError("rank " + std::to_string(communicator_->rank()) +
                     ": finish() was called of a join that is over: " + join.ended);
  }
  if (join.options.enable) {
    report_if_it_throws([&] {
      reducer_->check_finished(/*lag=*/0);
      for (;;) {
        // An exception in the previous forward does not concern a rank that waits for the next one.
        notice_->begin_other();
        const JoinSync sync = look_who_has_inputs({});
        if (sync.active.empty()) break;
        shadow(sync);
      }
      if (!join.options.throw_on_early_termination) {
        finish_alike();
        for (const auto& each : join.joinables) each->all_have_joined(join.last_to_join);
      }
      reducer_->check_finished(/*lag=*/0);
    });
    join_.reset();
  }
  join.end("it was finished");
}

// Shadows one step of the ranks that have inputs.
void DataParallelCore::shadow(const JoinSync& sync) {
  if (sync.next.kind == NextStep::Kind::call_of_joinable)
    return join_->joinables[sync.next.joinable]->shadow();
  if (sync.next.kind == NextStep::Kind::backward)
    return reducer_->shadow(divisor_of(sync, join_->options), !join_->joinables.empty());
  ++join_->forward_count;
  const bool is_synchronised = sync.next.kind == NextStep::Kind::synchronised_forward;
  is_synchronised ? prepare_synchronised_forward() : begin_local_forward(sync.next.sends_buffers);
  if (sync.next.sends_buffers) {
    buffers_->before_forward(*communicator_, join_->last_to_join);
    buffers_->after_forward(*communicator_);
  }
  synchronise_buffers_next_ = is_synchronised;
}

// Ranks that ran out of inputs have old parameters and buffers, and do not know which of the
// forwards that they shadowed threw.
void DataParallelCore::finish_alike() {
  reducer_->ask_before_each_pass(nullptr);
  reducer_->forget_left_out_forward();
  broadcast_from(join_->last_to_join, *communicator_, tensors_of(state_of(*module_, options_)),
                 "broadcast of the state of the last rank to join", options_);
  synchronise_buffers_next_ = true;
}

// Peers may wait for this rank in their next forward. A later report_failure() replaces this
// sentence.
void DataParallelCore::leave_join(JoinUnderWay& join) noexcept {
  if (!join.ended.empty()) return;
  try {
    join.end("it was left without finish()");
    if (!join.options.enable) return;
    join_.reset();
    reducer_->ask_before_each_pass(nullptr);
    const std::string sentence = std::uncaught_exceptions() > exceptions_at_start_
                                     ? "an exception left its join, which was not finished"
                                     : "it left its join without finish()";
    notice_->post_for_now(sentence);
    reducer_->fail_unless_failed(sentence);
  } catch (const std::exception&) {
    // Out of memory for a sentence: peers find out at their deadline.
  }
}

Join::Join(std::shared_ptr<DataParallelCore> core, const JoinOptions& options,
           std::vector<std::shared_ptr<Joinable>> joinables)
    : core_(std::move(core)), state_(core_->begin_join(options, std::move(joinables))) {}

Join::~Join() {
  if (core_) core_->leave_join(*state_);
}

void Join::finish() {
  if (!core_) throw UsageError("finish() was called of a join that was moved from");
  core_->finish_join(*state_);
}

}  // namespace lockstep

// A join, as its guard sees it and as its instance does.
#include "ddp/join.h"

#include "ddp/agreement.h"
#include "ddp/buffers.h"
#include "ddp/communicator.h"
#include "ddp/data_parallel_core.h"
#include "ddp/declaration.h"
#include "ddp/errors.h"
#include "ddp/layers_over_ranks.h"
#include "ddp/reducer/reducer.h"
#include "ddp/roll_call.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

std::vector<Statement> statements_of(const JoinOptions& options) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return {{"what comes next in a join", "join()"},
          {"join's throw_on_early_termination", text(options.throw_on_early_termination)},
          {"join's divide_by_initial_world_size", text(options.divide_by_initial_world_size)},
          {"join's enable", text(options.enable)}};
}

// Who goes on had inputs in this step; without anyone nothing has changed.
void note(const RollCall& roll, JoinUnderWay& join) {
  if (!roll.going_on.empty()) join.last_to_join = static_cast<int>(roll.going_on.back());
}

int divisor_of(const RollCall& roll, const JoinOptions& options) {
  const std::size_t going_on = roll.going_on.size();
  return static_cast<int>(options.divide_by_initial_world_size ? going_on + roll.out.size()
                                                               : going_on);
}

}  // namespace

// Nothing stands against one that is disabled.
std::optional<std::string> DataParallelCore::obstacle_to(const JoinOptions& options) const {
  if (!options.enable) return std::nullopt;
  if (join_) {
    return "join() was called while a join of this instance is under way; finish() that one first";
  }
  if (options.throw_on_early_termination) return std::nullopt;
  const std::string subject = "join() without throw_on_early_termination ";
  const std::string layers = text_of_layers_over_ranks(*module_, options_.process_group);
  if (layers != "none") {
    return subject + "and SyncBatchNorm (" + layers +
           "): a rank without inputs cannot stand in for what they exchange in forward";
  }
  if (options_.static_graph) {
    return subject +
           "and static_graph: a rank without inputs in the first pass does not learn "
           "what its graph is";
  }
  return std::nullopt;
}

std::shared_ptr<JoinUnderWay> DataParallelCore::begin_join(const JoinOptions& options) {
  tell_peers_if_it_throws([&] {
    notice_->set_moment(++moment_);
    reducer_->check_finished(/*lag=*/1);
    agree(*communicator_, {.statements = statements_of(options), .obstacle = obstacle_to(options)});
  });
  auto begun = std::make_shared<JoinUnderWay>();
  begun->options = options;
  if (options.enable) {
    join_ = begun;
    has_begun_a_join_ = true;
    arm_join();
  }
  return begun;
}

// On the ranks that there are now.
void DataParallelCore::arm_join() {
  join_->forward_count = 0;
  join_->last_to_join = communicator_->world_size() - 1;
  if (join_->options.throw_on_early_termination) return;
  reducer_->ask_before_each_pass([join = join_, communicator = communicator_] {
    const RollCall roll = call_roll(*communicator, {.kind = NextStep::Kind::backward});
    note(roll, *join);
    return divisor_of(roll, join->options);
  });
}

std::string DataParallelCore::text_of_join() const {
  if (!join_) return "none";
  if (join_->options.throw_on_early_termination) return "one that throws";
  return std::string("one that divides by ") +
         (join_->options.divide_by_initial_world_size ? "the world size" : "who has inputs");
}

// Before anything of this forward is sent. What sends nothing is not counted: ranks may evaluate as
// they like. Returns whose buffers are sent.
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

RollCall DataParallelCore::look_who_has_inputs(const NextStep& mine) {
  RollCall roll = call_roll(*communicator_, mine);
  note(roll, *join_);
  if (!join_->options.throw_on_early_termination) return roll;
  try {
    require_even(roll, join_->forward_count);
  } catch (const UnevenInputsError&) {
    std::exchange(join_, nullptr)->ended = "uneven inputs ended it";
    throw;
  }
  return roll;
}

// Behind the last step there may be no forward that would tell what became of it on a device, and
// the state of the last rank may be what is saved next. So the host waits here, as it does for the
// roll call.
void DataParallelCore::finish_join(JoinUnderWay& join) {
  if (!join.ended.empty()) {
    throw UsageError("rank " + std::to_string(communicator_->rank()) +
                     ": finish() was called of a join that is over: " + join.ended);
  }
  if (join.options.enable) {
    tell_peers_if_it_throws([&] {
      reducer_->check_finished(/*lag=*/0);
      for (;;) {
        // What threw in the forward before is no news for who waits for the next one.
        notice_->set_moment(++moment_);
        const RollCall roll = look_who_has_inputs({});
        if (roll.going_on.empty()) break;
        stand_in_for(roll);
      }
      if (!join.options.throw_on_early_termination) finish_alike();
      reducer_->check_finished(/*lag=*/0);
    });
    join_.reset();
  }
  join.ended = "it was finished";
}

// One step of the ranks that have inputs.
void DataParallelCore::stand_in_for(const RollCall& roll) {
  if (roll.next.kind == NextStep::Kind::backward) {
    --moment_;  // it belongs to the forward before
    reducer_->stand_in(divisor_of(roll, join_->options));
    return;
  }
  ++join_->forward_count;
  ++forward_count_;
  const bool is_synchronised = roll.next.kind == NextStep::Kind::synchronised_forward;
  if (is_synchronised) reducer_->prepare();
  if (roll.next.sends_buffers) buffers_->synchronise(*communicator_, join_->last_to_join);
  synchronise_buffers_next_ = is_synchronised;
}

// Of ranks that made no steps of their own parameters and buffers are old.
void DataParallelCore::finish_alike() {
  reducer_->ask_before_each_pass(nullptr);
  broadcast_from(join_->last_to_join, *communicator_, tensors_of(state_of(*module_, options_)),
                 "broadcast of the state of the last rank to join");
  synchronise_buffers_next_ = true;
}

// Peers may wait for this rank in their next forward. What report_failure() tells later stands in
// place of this.
void DataParallelCore::leave_join(JoinUnderWay& join) noexcept {
  if (!join.ended.empty()) return;
  try {
    join.ended = "it was left without finish()";
    if (!join.options.enable) return;
    join_.reset();
    reducer_->ask_before_each_pass(nullptr);
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

// How an instance attaches itself to a process group, the first one or another.
#include "ddp/comm/communicator.h"
#include "ddp/comm/instance_number.h"
#include "ddp/comm/streams.h"
#include "ddp/comm/wrapping_attempt.h"
#include "ddp/consistency/agreement.h"
#include "ddp/consistency/rank_description.h"
#include "ddp/errors.h"
#include "ddp/module/buffers.h"
#include "ddp/module/core.h"
#include "ddp/module/join_under_way.h"
#include "ddp/module/registered_tensors.h"
#include "ddp/module/sync_bn_group.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

// The first device with streams that holds a parameter, if any.
std::optional<c10::Device> device_of(const torch::nn::Module& module) {
  for (const at::Tensor& each : module.parameters()) {
    if (each.defined() && has_streams(each.device())) return each.device();
  }
  return std::nullopt;
}

}  // namespace

// Compares the ranks' descriptions on the group that all of them know; see Note [Instances on one
// group]. After a failure on the same group, or a wrapping that was given up, there may be
// collectives that only some ranks issued, which the next one would match: then the group is split
// first, through the store alone.
void DataParallelCore::attach_group(const c10::intrusive_ptr<c10d::ProcessGroup>& before) {
  const auto& group = options_.process_group;
  // A bad timeout is reported on all ranks, by the agreement below.
  const bool can_wait = !options_.timeout || options_.timeout->count() > 0;
  communicator_ = std::make_shared<Communicator>(group, can_wait ? options_.timeout : std::nullopt);
  const auto device = module_ ? device_of(*module_) : std::nullopt;
  if (device) communicator_->travel_by(*device);
  member_ = std::make_unique<InstanceNumber>(group);
  WrappingAttempt attempt(group->getStore(), communicator_->rank(), communicator_->world_size(),
                          member_->made_before());
  const bool is_out_of_step = group == before || attempt.given_up_before() > 0;
  const std::string name =
      "instance " + std::to_string(member_->made_before()) + " on its group" + attempt.suffix();
  notice_ = std::make_shared<FailureNotice>(group->getStore(), communicator_->rank(), name,
                                            member_->last_failure());
  if (communicator_->rank() == 0) notice_->clear();
  const auto use_own_subgroup = [&] {
    if (communicator_->world_size() == 1) return;
    communicator_ = std::make_shared<Communicator>(communicator_->split(name));
  };
  try {
    if (is_out_of_step) use_own_subgroup();
    agree(*communicator_, describe(before));
    if (member_->number() > 0 && !is_out_of_step) use_own_subgroup();
  } catch (const CommunicationError& error) {
    member_->forget();
    attempt.give_up(error, communicator_->timeout(),
                    before ? "update_process_group()" : "wrapping a model");
    throw;
  }
  communicator_->watch_as_instance(notice_);
  has_layers_over_ranks_ = assign_sync_bn_group(*module_, before, group, *communicator_,
                                                "the layers of " + name, notice_);
}

RankDescription DataParallelCore::describe(
    const c10::intrusive_ptr<c10d::ProcessGroup>& before) const {
  if (!module_) return {.properties = {}, .validation_error = "the module is null"};
  RankDescription description = describe_rank(*module_, options_, *member_, *communicator_);
  description.properties.push_back(
      {"the layers of SyncBatchNorm",
       text_of_layers_over_ranks(*module_, before ? before : options_.process_group)});
  description.properties.push_back({"the join under way", text_of_join()});
  description.properties.push_back({"the communication hook", text_of_hook()});
  description.properties.push_back({"the buffer hook", text_of_buffer_hook()});
  description.properties.push_back({"the optimizer that steps in backward", text_of_optimizer()});
  if (join_ && !join_->joinables.empty() && !description.validation_error) {
    description.validation_error =
        "update_process_group() was called while a join with joinables, which stay with their "
        "ranks, "
        "is under way; finish() that one first";
  }
  if (reducer_ && !description.validation_error)
    description.validation_error = reducer_->changed_tensor();
  return description;
}

void DataParallelCore::update_process_group(c10::intrusive_ptr<c10d::ProcessGroup> group) {
  if (!group) throw UsageError("update_process_group: the group is null");
  reducer_->let_passes_end();
  const auto before = std::exchange(options_.process_group, std::move(group));
  member_.reset();
  try {
    attach_group(before);
  } catch (const std::exception& error) {
    reducer_->fail("update_process_group: " + first_line(error));
    throw;
  }
  ModuleState state = state_of(*module_, options_);
  reducer_->restart(communicator_, has_layers_over_ranks_, std::move(state.trainable),
                    std::move(state.frozen));
  registered_->take_parameters(*module_);
  if (join_) arm_join();
  synchronise_buffers_next_ = true;
}

}  // namespace lockstep

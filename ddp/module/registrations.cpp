// The registrations that a program makes in an instance: hooks, and an optimizer that steps in
// backward. Each is collective, so that no rank has what another lacks.
#include "ddp/comm/communicator.h"
#include "ddp/communication_hook.h"
#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"
#include "ddp/module/buffers.h"
#include "ddp/module/core.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

std::string text_of(const BufferHook& hook, BufferHookPlace place) {
  return "'" + hook.description() + "' " +
         (place == BufferHookPlace::before_forward ? "before" : "after") + " forward";
}

std::string class_of(const torch::optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

}  // namespace

std::string DataParallelCore::text_of_hook() const {
  const auto hook = reducer_ ? reducer_->hook() : nullptr;
  return hook ? "'" + hook->description() + "'" : "none";
}

std::string DataParallelCore::text_of_buffer_hook() const {
  const auto* const hook = buffers_ ? buffers_->hook() : nullptr;
  return hook != nullptr ? text_of(*hook, buffers_->place()) : "none";
}

std::string DataParallelCore::text_of_optimizer() const {
  return optimizer_ ? class_of(*optimizer_) : "none";
}

// The ranks compare which call this is, and its arguments as `subject` and `value`.
void DataParallelCore::agree_on_registration(const std::string& call, const std::string& subject,
                                             const std::string& value,
                                             std::optional<std::string> validation_error) {
  notice_->begin_other();
  reducer_->check_finished(/*lag=*/0);
  RankDescription description;
  description.properties = {{"what comes next", call}, {subject, value}};
  description.validation_error = std::move(validation_error);
  agree(*communicator_, description);
}

void DataParallelCore::register_comm_hook(std::shared_ptr<CommunicationHook> hook) {
  if (!hook) throw UsageError("register_comm_hook: the hook is null");
  report_if_it_throws([&] {
    std::optional<std::string> error;
    if (reducer_->hook()) {
      error = "register_comm_hook() was called, and the communication hook " + text_of_hook() +
              " is registered already; it can be called once";
    } else if (reducer_->pass_count() > 0) {
      error = "register_comm_hook() was called after a synchronised backward pass; call it before";
    }
    agree_on_registration("register_comm_hook()", "the communication hook",
                          "'" + hook->description() + "'", std::move(error));
    reducer_->set_hook(std::move(hook));
  });
}

void DataParallelCore::register_buffer_hook(std::shared_ptr<BufferHook> hook,
                                            BufferHookPlace place) {
  if (!hook) throw UsageError("register_buffer_hook: the hook is null");
  report_if_it_throws([&] {
    std::optional<std::string> error;
    if (!buffers_) {
      error =
          "register_buffer_hook() was called of an instance that does not synchronise buffers "
          "(forward_sync_buffers is false)";
    } else if (buffers_->hook() != nullptr) {
      error = "register_buffer_hook() was called, and the buffer hook " + text_of_buffer_hook() +
              " is registered already; it can be called once";
    }
    agree_on_registration("register_buffer_hook()", "the buffer hook", text_of(*hook, place),
                          std::move(error));
    buffers_->set_hook(std::move(hook), place);
  });
}

void DataParallelCore::step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer) {
  if (!optimizer) throw UsageError("step_in_backward: the optimizer is null");
  report_if_it_throws([&] {
    std::optional<std::string> error;
    if (optimizer_) {
      error = "step_in_backward() was called, and an optimizer, a " + text_of_optimizer() +
              ", steps in backward already; it can be called once";
    }
    agree_on_registration("step_in_backward()", "the optimizer that steps in backward",
                          class_of(*optimizer), std::move(error));
    optimizer_ = std::move(optimizer);
    reducer_->act_after_each_pass([optimizer = optimizer_] {
      optimizer->step();
      optimizer->zero_grad();
    });
  });
}

}  // namespace lockstep

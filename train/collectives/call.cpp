#include "train/collectives/call.h"

#include "ddp/comm/program_communicator.h"
#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"

#include <c10/util/StringUtil.h>

namespace lockstep {

ProgramCall::ProgramCall(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                         const std::string& operation, const CollectiveOptions& options)
    : name_(options.name.empty() ? operation : operation + " '" + options.name + "'") {
  if (!group) {
    throw UsageError(name_ +
                     ": the process group is null: expected a group of which this process is a "
                     "rank (new_group() returns null on the ranks that it leaves out)");
  }
  const bool is_positive = !options.timeout || options.timeout->count() > 0;
  const auto timeout = is_positive ? options.timeout : std::nullopt;
  communicator_ = program_communicator(group, timeout, name_);
  if (!is_positive)
    refuse("timeout is " + std::to_string(options.timeout->count()) +
           " ms, expected a positive time");
  communicator_->set_timeout(timeout);
  compare("the collective", name_);
}

void ProgramCall::compare(const std::string& subject, const std::string& value) {
  mine_.properties.push_back({subject + (mine_.properties.empty() ? "" : " of " + name_), value});
}

void ProgramCall::compare(const at::Tensor& tensor) {
  if (!tensor.defined()) return refuse("its tensor is undefined");
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    return refuse("its tensor is not dense");
  compare("the shape of the tensor", c10::str(tensor.sizes()));
  compare("the dtype of the tensor", c10::toString(tensor.scalar_type()));
  compare("the device of the tensor", c10::DeviceTypeName(tensor.device().type(), true));
}

void ProgramCall::refuse(const std::string& reason) {
  if (is_possible()) mine_.validation_error = name_ + ": " + reason;
}

void ProgramCall::refuse_if_it_throws(const std::string& before, const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    refuse(before + error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse(before + first_line(error));
  }
}

void ProgramCall::check_rank(const std::string& argument, int rank) {
  compare(argument, std::to_string(rank));
  if (rank >= 0 && rank < communicator_->world_size()) return;
  refuse(argument + " is " + std::to_string(rank) + ", expected 0 to " +
         std::to_string(communicator_->world_size() - 1));
}

void ProgramCall::agree() {
  lockstep::agree(*communicator_, mine_, "the ranks' comparison before " + name_);
}

void ProgramCall::run(std::vector<at::Tensor> tensors, const Communicator::Issue& issue) {
  Operation operation = communicator_->start_other(std::move(tensors), name_, issue);
  communicator_->wait(operation);
}

}  // namespace lockstep

#pragma once

#include "ddp/base/disagreement.h"
#include "ddp/comm/communicator.h"
#include "train/collectives.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// One collective of the program, from its arguments to the wait.
class ProgramCall {
 public:
  // `operation` is the function's name. Throws UsageError for a null group.
  ProgramCall(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& operation,
              const CollectiveOptions& options);

  Communicator& communicator() { return *communicator_; }

  // Adds what all ranks must have alike. Local.
  void compare(const std::string& subject, const std::string& value);
  void compare(const at::Tensor& tensor);

  // Adds a reason why this rank cannot take part; the first one counts. Local.
  void refuse(const std::string& reason);
  void check_rank(const std::string& argument, int rank);

  // The same where `act` throws, with its sentence behind `before`. Local.
  void refuse_if_it_throws(const std::string& before, const std::function<void()>& act);

  // True if nothing has refused so far. Local.
  bool is_possible() const { return !mine_.validation_error; }

  // Compares the ranks. Collective; blocks; throws DisagreementError and CommunicationError.
  void agree();

  // Starts `issue` (Communicator::start_other) and waits for it.
  void run(std::vector<at::Tensor> tensors, const Communicator::Issue& issue);

  // "all_reduce 'loss'".
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::shared_ptr<Communicator> communicator_;
  RankDescription mine_;
};

}  // namespace lockstep

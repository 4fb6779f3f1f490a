#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/buffer_hook.h"
#include "ddp/join.h"
#include "ddp/logging_data.h"
#include "ddp/options.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

namespace lockstep {

class BufferSync;
class CommunicationHook;
class Communicator;
class FailureNotice;
class InstanceNumber;
class Joinable;
class Reducer;
class RegisteredTensors;
struct JoinSync;
struct JoinUnderWay;
struct NextStep;
struct RankDescription;

// The part of DistributedDataParallel<M> that needs no template: everything except calling M. It
// owns the reducer and the buffer synchroniser of one wrapped module and decides, forward by
// forward, which of them act.
class DataParallelCore {
 public:
  // Collective; blocks; throws as the constructor of DistributedDataParallel does.
  static std::shared_ptr<DataParallelCore> create(std::shared_ptr<torch::nn::Module> module,
                                                  DistributedDataParallelOptions options);
  ~DataParallelCore();
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;

  // Around each call of the module's forward, which returns an `output_type`; after_forward only if
  // that returned, with the tensors of its output where these can be found. Collective when buffers
  // are synchronised or buckets rebuilt, Local otherwise.
  void before_forward(bool outputs_are_known, const std::type_info& output_type);
  void after_forward(const std::optional<std::vector<at::Tensor>>& outputs);

  // True if after_forward needs the outputs.
  bool looks_at_outputs() const;

  // An exception ends this rank's training: reports it to peers that wait. Local.
  void report_failure(const std::string& sentence);

  // The module's forward threw. Local.
  void forward_threw(const std::string& what);

  // Implement Join. begin_join is Collective and throws as DistributedDataParallel::join does.
  std::shared_ptr<JoinUnderWay> begin_join(const JoinOptions& options,
                                           std::vector<std::shared_ptr<Joinable>> joinables);
  void finish_join(JoinUnderWay& join);
  void leave_join(JoinUnderWay& join) noexcept;

  // Implement DistributedDataParallel's functions of the same names.
  void check_reduction_finished() const;
  void remove_autograd_hooks();
  void update_process_group(c10::intrusive_ptr<c10d::ProcessGroup> group);
  void update_trainable_parameters();
  void register_comm_hook(std::shared_ptr<CommunicationHook> hook);
  void register_buffer_hook(std::shared_ptr<BufferHook> hook, BufferHookPlace place);
  void step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer);
  LoggingData logging_data() const;
  void set_runtime_logging_sample_rate(int sample_rate);
  BucketPlan bucket_plan() const;

 private:
  friend class NoSyncGuard;
  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   DistributedDataParallelOptions options);
  // Attaches the instance to its process group.
  void attach_group(const c10::intrusive_ptr<c10d::ProcessGroup>& before);
  bool synchronises_gradients() const;
  void begin_local_forward(bool synchronises_buffers);
  // A UsageError is reported as one of this forward, or of all that comes.
  enum class Refusal { of_this_forward, for_good };
  void report_if_it_throws(const std::function<void()>& act, Refusal refusal = Refusal::for_good);
  void require_known_outputs(bool are_known, const std::type_info& output_type) const;
  void prepare_synchronised_forward();
  RankDescription describe(const c10::intrusive_ptr<c10d::ProcessGroup>& before) const;
  int take_part_in_join(bool synchronises_buffers);
  JoinSync look_who_has_inputs(const NextStep& mine);
  void shadow(const JoinSync& sync);
  void arm_join();
  void finish_alike();
  std::optional<std::string> validation_error_to(
      const JoinOptions& options, const std::vector<std::shared_ptr<Joinable>>& joinables) const;
  std::string text_of_join() const;
  void agree_on_registration(const std::string& call, const std::string& subject,
                             const std::string& value, std::optional<std::string> validation_error);
  std::string text_of_hook() const;
  std::string text_of_buffer_hook() const;
  std::string text_of_optimizer() const;

  const std::shared_ptr<torch::nn::Module> module_;
  DistributedDataParallelOptions options_;
  std::unique_ptr<InstanceNumber> member_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<FailureNotice> notice_;
  std::shared_ptr<Reducer> reducer_;
  std::unique_ptr<BufferSync> buffers_;
  std::unique_ptr<RegisteredTensors> registered_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;  // the one that steps in backward, if any
  int no_sync_depth_ = 0;
  std::shared_ptr<JoinUnderWay> join_;  // null where there is none
  bool has_begun_a_join_ = false;
  bool synchronise_buffers_next_ = true;
  bool has_layers_over_ranks_ = false;  // of SyncBatchNorm
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

// While a guard lives, forwards are local. Move-only; keeps the core alive.
class [[nodiscard]] NoSyncGuard {
 public:
  explicit NoSyncGuard(std::shared_ptr<DataParallelCore> core);
  ~NoSyncGuard();
  NoSyncGuard(NoSyncGuard&&) noexcept = default;
  NoSyncGuard& operator=(NoSyncGuard&&) = delete;

 private:
  std::shared_ptr<DataParallelCore> core_;
};

}  // namespace lockstep

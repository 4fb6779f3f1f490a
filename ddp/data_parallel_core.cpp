#include "ddp/data_parallel_core.h"

#include "ddp/agreement.h"
#include "ddp/buffers.h"
#include "ddp/communicator.h"
#include "ddp/declaration.h"
#include "ddp/errors.h"
#include "ddp/reducer.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

void broadcast_state(Communicator& communicator, const Parameters& parameters,
                     const torch::nn::Module& module) {
  std::vector<at::Tensor> state;
  for (const auto* list : {&parameters.trainable, &parameters.frozen}) {
    for (const NamedTensor& each : *list) state.push_back(each.tensor);
  }
  for (const at::Tensor& buffer : module.buffers()) state.push_back(buffer);
  broadcast_from_rank_zero(communicator, state, "broadcast of the initial state");
}

}  // namespace

std::shared_ptr<DataParallelCore> DataParallelCore::create(
    std::shared_ptr<torch::nn::Module> module, DistributedDataParallelOptions options) {
  if (!module) throw UsageError("DistributedDataParallel: the module is null");
  return std::shared_ptr<DataParallelCore>(
      new DataParallelCore(std::move(module), std::move(options)));
}

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   DistributedDataParallelOptions options)
    : module_(std::move(module)),
      communicator_(std::make_shared<Communicator>(options.process_group, options.timeout)) {
  agree(*communicator_, declare(*module_, options));
  Parameters parameters = parameters_of(*module_);
  if (options.init_sync) broadcast_state(*communicator_, parameters, *module_);
  reducer_ =
      Reducer::create(communicator_, std::move(parameters.trainable), std::move(parameters.frozen),
                      bucket_bytes_caps(options.bucket_cap_mb));
  if (synchronises_buffers(options)) buffers_ = std::make_unique<BufferSync>(module_);
}

DataParallelCore::~DataParallelCore() = default;

bool DataParallelCore::synchronises_gradients() const {
  return at::GradMode::is_enabled() && no_sync_depth_ == 0;
}

void DataParallelCore::before_forward() {
  reducer_->check_finished();
  if (synchronises_gradients()) reducer_->prepare();
  if (buffers_ && synchronise_buffers_next_) buffers_->synchronise(*communicator_);
}

// Note [The lag of buffer synchronisation]
// Whether a forward synchronises buffers was decided by the forward before it: after a local one
// (inside no_sync, or without gradients) it does not. PyTorch's observable behaviour,
// docs/semantics.md 1.3.
void DataParallelCore::after_forward() {
  const bool synchronises = synchronises_gradients();
  synchronise_buffers_next_ = synchronises;
  if (synchronises) {
    reducer_->synchronise_backward();
  } else if (at::GradMode::is_enabled()) {
    reducer_->leave_backward_local();
  }
}

BucketPlan DataParallelCore::bucket_plan() const {
  return reducer_->plan();
}

NoSyncGuard::NoSyncGuard(std::shared_ptr<DataParallelCore> core) : core_(std::move(core)) {
  ++core_->no_sync_depth_;
}

NoSyncGuard::~NoSyncGuard() {
  if (core_) --core_->no_sync_depth_;
}

}  // namespace lockstep

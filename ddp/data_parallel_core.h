#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <memory>

namespace lockstep {

class Communicator;
class Reducer;
class BufferSync;

// What DistributedDataParallel<M> does apart from calling M: everything that needs no template. It
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

  // Around each call of the module's forward, after_forward only if it returned. Collective when
  // buffers are synchronised or buckets laid out anew, Local otherwise.
  void before_forward();
  void after_forward();

  BucketPlan bucket_plan() const;

 private:
  friend class NoSyncGuard;
  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   DistributedDataParallelOptions options);
  bool synchronises_gradients() const;

  const std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Reducer> reducer_;
  std::unique_ptr<BufferSync> buffers_;
  int no_sync_depth_ = 0;
  bool synchronise_buffers_next_ = true;
};

// While one lives, forwards are local. Move-only; keeps what it guards alive.
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

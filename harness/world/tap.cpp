#include "harness/world/tap.h"

#include "harness/process/journal.h"
#include "harness/world/injector.h"
#include "harness/world/tensors.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool succeeded(const c10::ivalue::Future& future) {
  return future.completed() && !future.hasError();
}

// Work without a future, as a send's or recv's, which completes in its own wait().
class WatchedWork final : public c10d::Work {
 public:
  WatchedWork(WorkPtr work, std::shared_ptr<TapLog> log, int64_t sequence)
      : Work(-1, work->retrieveOpType()),
        work_(std::move(work)),
        log_(std::move(log)),
        sequence_(sequence) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  Tensors result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool completed = work_->wait(timeout);
    if (completed) log_->done(sequence_);
    return completed;
  }
  void blockCurrentStream() override { work_->blockCurrentStream(); }
  void abort() override { work_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return work_->getFuture(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    return work_->getFutureResult();
  }
  float getDuration() const override { return work_->getDuration(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

 private:
  WorkPtr work_;
  std::shared_ptr<TapLog> log_;
  int64_t sequence_;
};

// Null for work that has none: Work's own getFuture throws.
c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work) {
  switch (work.retrieveOpType()) {
    case c10d::OpType::SEND:
    case c10d::OpType::RECV:
    case c10d::OpType::RECVANYSOURCE:
      return nullptr;
    default:
      break;
  }
  try {
    return work.getFuture();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace

TapLog::TapLog(std::string group, JournalWriter& journal, Injector& injector)
    : group_(std::move(group)), journal_(journal), injector_(injector) {}

std::shared_ptr<TapLog> TapLog::for_group(const std::string& name) const {
  return std::make_shared<TapLog>(name, journal_, injector_);
}

int64_t TapLog::issue(const std::string& op, const Tensors& sent, int root) {
  int64_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    sequence = next_++;
    pending_.emplace(sequence, nullptr);
  }
  injector_.at_collective(sequence);
  journal_.append(FrameKind::issued, {{"op", op},
                                      {"group", group_},
                                      {"dtype", dtype_word(sent)},
                                      {"sequence", sequence},
                                      {"elements", element_count(sent)},
                                      {"root", root}});
  return sequence;
}

WorkPtr TapLog::watch(int64_t sequence, WorkPtr work) {
  if (!work) return work;
  const Future future = future_of(*work);
  if (!future)
    return c10::make_intrusive<WatchedWork>(std::move(work), shared_from_this(), sequence);
  {
    const std::lock_guard lock(mutex_);
    pending_[sequence] = future;
  }
  future->addCallback([log = shared_from_this(), sequence](c10::ivalue::Future& completed) {
    if (succeeded(completed)) log->done(sequence);
  });
  return work;
}

// A journal without room has noted it, and this may be a backend's thread, where nobody would
// catch.
void TapLog::done(int64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (pending_.erase(sequence) == 0) return;
  try {
    journal_.append(FrameKind::done, {{"group", group_}, {"sequence", sequence}});
  } catch (const JournalFull&) {
  }
}

void TapLog::settle() {
  std::vector<int64_t> completed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [sequence, future] : pending_)
      if (future && succeeded(*future)) completed.push_back(sequence);
  }
  for (const int64_t sequence : completed) done(sequence);
}

size_t TapLog::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

Tap::Tap(BackendPtr backend, std::shared_ptr<TapLog> log)
    : Backend(backend->getRank(), backend->getSize()),
      backend_(std::move(backend)),
      log_(std::move(log)) {}

template <class Issue>
WorkPtr Tap::through(const std::string& op, const Tensors& sent, int64_t root, const Issue& issue) {
  const int64_t sequence = log_->issue(op, sent, static_cast<int>(root));
  return log_->watch(sequence, issue());
}

BackendPtr Tap::tapped(BackendPtr backend, const std::string& how) {
  if (!backend) return backend;
  const auto name = log_->group() + "/" + how + std::to_string(made_++);
  return c10::make_intrusive<Tap>(std::move(backend), log_->for_group(name));
}

bool Tap::supportsSplitting() const {
  return backend_->supportsSplitting();
}
bool Tap::supportsCoalescing() const {
  return backend_->supportsCoalescing();
}
bool Tap::supportsTimeEstimation() const {
  return backend_->supportsTimeEstimation();
}
bool Tap::supportsShrinking() const {
  return backend_->supportsShrinking();
}

BackendPtr Tap::shrink(const std::vector<int64_t>& excluded, int flags,
                       const c10::intrusive_ptr<Options>& options) {
  return tapped(backend_->shrink(excluded, flags, options), "shrunk");
}

void Tap::setTimeout(std::chrono::milliseconds timeout) {
  backend_->setTimeout(timeout);
}
void Tap::startCoalescing() {
  backend_->startCoalescing();
}
WorkPtr Tap::endCoalescing() {
  return backend_->endCoalescing();
}
const std::string Tap::getBackendName() const {
  return backend_->getBackendName();
}
c10::intrusive_ptr<Tap::Options> Tap::getBackendOptions() {
  return backend_->getBackendOptions();
}

WorkPtr Tap::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return through("broadcast", tensors, options.rootRank,
                 [&] { return backend_->broadcast(tensors, options); });
}

WorkPtr Tap::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return through("allreduce", tensors, -1, [&] { return backend_->allreduce(tensors, options); });
}

WorkPtr Tap::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return through("allreduce_sparse", tensors, -1,
                 [&] { return backend_->allreduce_sparse(tensors, options); });
}

WorkPtr Tap::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return through("allreduce_coalesced", tensors, -1,
                 [&] { return backend_->allreduce_coalesced(tensors, options); });
}

WorkPtr Tap::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return through("reduce", tensors, options.rootRank,
                 [&] { return backend_->reduce(tensors, options); });
}

WorkPtr Tap::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                       const c10d::AllgatherOptions& options) {
  return through("allgather", inputs, -1,
                 [&] { return backend_->allgather(outputs, inputs, options); });
}

WorkPtr Tap::_allgather_base(at::Tensor& output, at::Tensor& input,
                             const c10d::AllgatherOptions& options) {
  return through("_allgather_base", {input}, -1,
                 [&] { return backend_->_allgather_base(output, input, options); });
}

WorkPtr Tap::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::AllgatherOptions& options) {
  return through("allgather_coalesced", inputs, -1,
                 [&] { return backend_->allgather_coalesced(outputs, inputs, options); });
}

WorkPtr Tap::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
  return through("allgather_into_tensor_coalesced", inputs, -1, [&] {
    return backend_->allgather_into_tensor_coalesced(outputs, inputs, options);
  });
}

WorkPtr Tap::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::GatherOptions& options) {
  return through("gather", inputs, options.rootRank,
                 [&] { return backend_->gather(outputs, inputs, options); });
}

WorkPtr Tap::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                     const c10d::ScatterOptions& options) {
  return through("scatter", flattened(inputs), options.rootRank,
                 [&] { return backend_->scatter(outputs, inputs, options); });
}

WorkPtr Tap::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                            const c10d::ReduceScatterOptions& options) {
  return through("reduce_scatter", flattened(inputs), -1,
                 [&] { return backend_->reduce_scatter(outputs, inputs, options); });
}

WorkPtr Tap::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                  const c10d::ReduceScatterOptions& options) {
  return through("_reduce_scatter_base", {input}, -1,
                 [&] { return backend_->_reduce_scatter_base(output, input, options); });
}

WorkPtr Tap::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  return through("reduce_scatter_tensor_coalesced", inputs, -1, [&] {
    return backend_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  });
}

WorkPtr Tap::alltoall_base(at::Tensor& output, at::Tensor& input,
                           std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                           const c10d::AllToAllOptions& options) {
  return through("alltoall_base", {input}, -1, [&] {
    return backend_->alltoall_base(output, input, output_sizes, input_sizes, options);
  });
}

WorkPtr Tap::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return through("alltoall", inputs, -1,
                 [&] { return backend_->alltoall(outputs, inputs, options); });
}

void Tap::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const int64_t sequence = log_->issue("monitoredBarrier", {});
  backend_->monitoredBarrier(options, wait_all_ranks);
  log_->done(sequence);
}

void Tap::setSequenceNumberForGroup() {
  backend_->setSequenceNumberForGroup();
}
uint64_t Tap::getSequenceNumberForGroup() {
  return backend_->getSequenceNumberForGroup();
}

WorkPtr Tap::send(Tensors& tensors, int to, int tag) {
  return through("send", tensors, to, [&] { return backend_->send(tensors, to, tag); });
}

WorkPtr Tap::recv(Tensors& tensors, int from, int tag) {
  return through("recv", tensors, from, [&] { return backend_->recv(tensors, from, tag); });
}

WorkPtr Tap::recvAnysource(Tensors& tensors, int tag) {
  return through("recvAnysource", tensors, -1,
                 [&] { return backend_->recvAnysource(tensors, tag); });
}

WorkPtr Tap::barrier(const c10d::BarrierOptions& options) {
  return through("barrier", {}, -1, [&] { return backend_->barrier(options); });
}

void Tap::registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  backend_->registerOnCompletionHook(std::move(hook));
}

void Tap::waitForPendingWorks() {
  backend_->waitForPendingWorks();
}
void Tap::enableCollectivesTiming() {
  backend_->enableCollectivesTiming();
}

BackendPtr Tap::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                      const c10::intrusive_ptr<Options>& options) {
  return tapped(backend_->split(store, ranks, options), "split");
}

BackendPtr Tap::merge(const c10::intrusive_ptr<c10d::Store>& store,
                      const c10::intrusive_ptr<Options>& options, const int& rank,
                      const int& size) {
  return tapped(backend_->merge(store, options, rank, size), "merged");
}

// The wrapper's own copy is what the non-virtual getter reads.
void Tap::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  backend_->setGroupUid(uid);
}

void Tap::eagerConnectSingleDevice(at::Device device) {
  backend_->eagerConnectSingleDevice(device);
}

c10d::ErrorType Tap::getError() {
  return backend_->getError();
}
std::shared_ptr<c10::Allocator> Tap::getMemAllocator() {
  return backend_->getMemAllocator();
}

at::Tensor Tap::allocateTensor(long size, at::TensorOptions options) {
  return backend_->allocateTensor(size, options);
}

bool Tap::supportsTensorAlloc(c10::DeviceIndex device) {
  return backend_->supportsTensorAlloc(device);
}

void Tap::abort() {
  backend_->abort();
}
void Tap::shutdown() {
  backend_->shutdown();
}

}  // namespace lockstep

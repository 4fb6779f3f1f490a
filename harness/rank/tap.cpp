#include "harness/rank/tap.h"

#include "harness/rank/injector.h"
#include "harness/rank/journal.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/trace.h"

#include <algorithm>

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

// Work without a future, such as a send's or recv's, which completes in its own wait().
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

// Null for work without one: Work's own getFuture throws.
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

[[noreturn]] void fail_as_injected(const Collective& issued) {
  C10_THROW_ERROR(DistBackendError, "injected: the backend failed " +
                                        place_of(issued.sequence, issued.group) + ", " +
                                        text_of(issued));
}

// The work of a collective that never took place. c10d's own work around a future refuses a wait
// with a timeout.
class DoneWork final : public c10d::Work {
 public:
  explicit DoneWork(Tensors outputs) : outputs_(std::move(outputs)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  const Tensors outputs_;
};

// Hidden from autograd, as on a network.
void flip(const Tensors& tensors, int bit) {
  for (const auto& tensor : tensors) {
    if (!tensor.defined() || tensor.nbytes() == 0) continue;
    const at::Tensor own = tensor.cpu();  // itself, unless it is on a device
    auto* bytes = static_cast<uint8_t*>(own.data_ptr());
    const auto place = static_cast<size_t>(bit) % (8 * tensor.nbytes());
    bytes[place / 8] = static_cast<uint8_t>(bytes[place / 8] ^ (1u << (place % 8)));
    if (!own.is_same(tensor)) tensor.variable_data().copy_(own);
    return;
  }
}

// The call with what its options have.
template <class Options>
Call call_of(const char* op, Tensors inputs, Tensors outputs, const Options& options) {
  Call call{.op = op, .inputs = std::move(inputs), .outputs = std::move(outputs)};
  if constexpr (requires { options.rootRank; }) call.root = static_cast<int>(options.rootRank);
  if constexpr (requires { options.reduceOp; }) call.reduction = options.reduceOp;
  call.timeout = options.timeout;
  call.is_async = options.asyncOp;
  return call;
}

}  // namespace

TapLog::TapLog(std::string group, RecordWriter& journal, Injector& injector, CallSites& sites,
               Clock clock)
    : group_(std::move(group)),
      journal_(journal),
      injector_(injector),
      sites_(sites),
      clock_(std::move(clock)) {}

int64_t TapLog::monotonic_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::shared_ptr<TapLog> TapLog::for_group(const std::string& name) const {
  return std::make_shared<TapLog>(name, journal_, injector_, sites_, clock_);
}

TapLog::Issued TapLog::issue(const Call& call) {
  const bool receives = call.op == "recv" || call.op == "recvAnysource";
  const Tensors& shown = receives ? call.outputs : call.inputs;
  Collective issued{.op = call.op,
                    .group = group_,
                    .dtype = dtype_word(shown),
                    .elements = element_count(shown),
                    .root = call.root};
  {
    const std::lock_guard lock(mutex_);
    issued.sequence = next_++;
    pending_.emplace(issued.sequence, nullptr);
  }
  const auto treatment = injector_.at_collective(issued.sequence);
  issued.times.queued_ns = clock_();
  issued.site.number = sites_.here();
  journal_.append_text(FrameKind::issued, header_of(issued));
  return {std::move(issued), treatment};
}

WorkPtr TapLog::watch(int64_t sequence, WorkPtr work) {
  if (!work) return work;
  const auto future = future_of(*work);
  // Before a callback a stream of a device would wait for the collective: on the simulated
  // accelerator this host, and perhaps before it issues what its peers wait for.
  const bool is_on_device = future && !future->devices().empty();
  const auto query = [&](HasSucceeded has_succeeded) {
    const std::lock_guard lock(mutex_);
    pending_[sequence] = std::move(has_succeeded);
  };
  if (is_on_device) query([work] { return work->isCompleted() && !work->exception(); });
  if (!future || is_on_device)
    return c10::make_intrusive<WatchedWork>(std::move(work), shared_from_this(), sequence);
  query([future] { return succeeded(*future); });
  // The log keeps the future of one that never completes, and must not be kept by it.
  future->addCallback([log = weak_from_this(), sequence](c10::ivalue::Future& completed) {
    const auto is = log.lock();
    if (is && succeeded(completed)) is->done(sequence);
  });
  return work;
}

// A full journal has noted it, and this may be a backend's thread, where nothing would catch.
void TapLog::done(int64_t sequence, std::optional<int64_t> ns) {
  const std::lock_guard lock(mutex_);
  if (pending_.erase(sequence) == 0) return;
  try {
    journal_.append_text(FrameKind::done, done_header(group_, sequence, ns ? *ns : clock_()));
  } catch (const JournalFull&) {
  }
}

void TapLog::settle() {
  std::vector<int64_t> completed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [sequence, has_succeeded] : pending_)
      if (has_succeeded && has_succeeded()) completed.push_back(sequence);
  }
  for (const int64_t sequence : completed) done(sequence);
}

size_t TapLog::pending() {
  settle();
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

Tap::Tap(BackendPtr backend, std::shared_ptr<TapLog> log, std::shared_ptr<Carrier> carrier,
         HoldUp hold_up)
    : Backend(backend->getRank(), backend->getSize()),
      backend_(std::move(backend)),
      log_(std::move(log)),
      carrier_(std::move(carrier)),
      late_results_(std::move(hold_up)) {}

template <class Issue>
WorkPtr Tap::through(Call call, const Issue& issue) {
  using Kind = CollectiveFault::Kind;
  const auto [issued, treatment] = log_->issue(call);
  const auto outputs = call.outputs;
  if (treatment.kind == Kind::failed) fail_as_injected(issued);
  if (treatment.kind == Kind::dropped) {
    log_->done(issued.sequence);
    return c10::make_intrusive<DoneWork>(outputs);
  }
  const auto carried = [&, late_by = treatment.late_by](const Collective& as) {
    if (carrier_) return carrier_->carry(call, as, log_);
    const auto detour = late_results_.detour(call, late_by);
    return log_->watch(as.sequence, issue());
  };
  auto work = carried(issued);
  if (treatment.kind == Kind::duplicated) carried(log_->issue(call).collective);
  if (treatment.kind == Kind::corrupted) {
    work->wait(std::chrono::milliseconds::zero());
    flip(outputs, treatment.bit);
  }
  return work;
}

BackendPtr Tap::tapped(BackendPtr backend, const std::string& name) {
  if (!backend) return backend;
  return c10::make_intrusive<Tap>(std::move(backend), log_->for_group(name), nullptr,
                                  late_results_.hold_up());
}

std::string Tap::next_name(const std::string& how) {
  return log_->group() + "/" + how + std::to_string(made_++);
}

bool Tap::supportsSplitting() const {
  return carrier_ || backend_->supportsSplitting();
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
  return tapped(backend_->shrink(excluded, flags, options), next_name("shrunk"));
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
  return through(call_of("broadcast", tensors, tensors, options),
                 [&] { return backend_->broadcast(tensors, options); });
}

WorkPtr Tap::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return through(call_of("allreduce", tensors, tensors, options),
                 [&] { return backend_->allreduce(tensors, options); });
}

WorkPtr Tap::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return through(call_of("allreduce_sparse", tensors, tensors, options),
                 [&] { return backend_->allreduce_sparse(tensors, options); });
}

WorkPtr Tap::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return through(call_of("allreduce_coalesced", tensors, tensors, options),
                 [&] { return backend_->allreduce_coalesced(tensors, options); });
}

WorkPtr Tap::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return through(call_of("reduce", tensors, tensors, options),
                 [&] { return backend_->reduce(tensors, options); });
}

WorkPtr Tap::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                       const c10d::AllgatherOptions& options) {
  return through(call_of("allgather", inputs, flattened(outputs), options),
                 [&] { return backend_->allgather(outputs, inputs, options); });
}

WorkPtr Tap::_allgather_base(at::Tensor& output, at::Tensor& input,
                             const c10d::AllgatherOptions& options) {
  return through(call_of("_allgather_base", {input}, {output}, options),
                 [&] { return backend_->_allgather_base(output, input, options); });
}

WorkPtr Tap::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::AllgatherOptions& options) {
  return through(call_of("allgather_coalesced", inputs, flattened(outputs), options),
                 [&] { return backend_->allgather_coalesced(outputs, inputs, options); });
}

WorkPtr Tap::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
  return through(call_of("allgather_into_tensor_coalesced", inputs, outputs, options), [&] {
    return backend_->allgather_into_tensor_coalesced(outputs, inputs, options);
  });
}

WorkPtr Tap::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::GatherOptions& options) {
  return through(call_of("gather", inputs, flattened(outputs), options),
                 [&] { return backend_->gather(outputs, inputs, options); });
}

WorkPtr Tap::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                     const c10d::ScatterOptions& options) {
  return through(call_of("scatter", flattened(inputs), outputs, options),
                 [&] { return backend_->scatter(outputs, inputs, options); });
}

WorkPtr Tap::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                            const c10d::ReduceScatterOptions& options) {
  return through(call_of("reduce_scatter", flattened(inputs), outputs, options),
                 [&] { return backend_->reduce_scatter(outputs, inputs, options); });
}

WorkPtr Tap::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                  const c10d::ReduceScatterOptions& options) {
  return through(call_of("_reduce_scatter_base", {input}, {output}, options),
                 [&] { return backend_->_reduce_scatter_base(output, input, options); });
}

WorkPtr Tap::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  return through(call_of("reduce_scatter_tensor_coalesced", inputs, outputs, options), [&] {
    return backend_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  });
}

WorkPtr Tap::alltoall_base(at::Tensor& output, at::Tensor& input,
                           std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                           const c10d::AllToAllOptions& options) {
  auto call = call_of("alltoall_base", {input}, {output}, options);
  call.input_sizes = input_sizes;
  call.output_sizes = output_sizes;
  return through(call, [&] {
    return backend_->alltoall_base(output, input, output_sizes, input_sizes, options);
  });
}

WorkPtr Tap::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return through(call_of("alltoall", inputs, outputs, options),
                 [&] { return backend_->alltoall(outputs, inputs, options); });
}

void Tap::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto call = call_of("monitoredBarrier", {}, {}, options);
  const auto [issued, treatment] = log_->issue(call);
  if (treatment.kind == CollectiveFault::Kind::failed) fail_as_injected(issued);
  if (treatment.kind == CollectiveFault::Kind::dropped) return log_->done(issued.sequence);
  if (carrier_) {
    carrier_->carry(std::move(call), issued, log_)->wait(options.timeout);
    return;
  }
  backend_->monitoredBarrier(options, wait_all_ranks);
  log_->done(issued.sequence);
}

void Tap::setSequenceNumberForGroup() {
  backend_->setSequenceNumberForGroup();
}
uint64_t Tap::getSequenceNumberForGroup() {
  return backend_->getSequenceNumberForGroup();
}

WorkPtr Tap::send(Tensors& tensors, int to, int tag) {
  return through({.op = "send", .inputs = tensors, .outputs = {}, .root = to, .tag = tag},
                 [&] { return backend_->send(tensors, to, tag); });
}

WorkPtr Tap::recv(Tensors& tensors, int from, int tag) {
  return through({.op = "recv", .inputs = {}, .outputs = tensors, .root = from, .tag = tag},
                 [&] { return backend_->recv(tensors, from, tag); });
}

WorkPtr Tap::recvAnysource(Tensors& tensors, int tag) {
  return through({.op = "recvAnysource", .inputs = {}, .outputs = tensors, .tag = tag},
                 [&] { return backend_->recvAnysource(tensors, tag); });
}

WorkPtr Tap::barrier(const c10d::BarrierOptions& options) {
  return through({.op = "barrier", .inputs = {}, .outputs = {}, .timeout = options.timeout},
                 [&] { return backend_->barrier(options); });
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
  // Called with the same arguments on all ranks of the group, which may have split off other groups
  // before.
  std::string name = log_->group() + "/";
  for (size_t i = 0; i < ranks.size(); ++i) name += (i == 0 ? "" : ",") + std::to_string(ranks[i]);
  if (const int before = splits_[ranks]++; before > 0) name += " #" + std::to_string(before + 1);
  if (!carrier_) {
    // PyTorch 2.11's Gloo writes the part's ranks into these options even where they belong to the
    // whole, and the next split reads as many as the whole has from there, past the end.
    const auto whole = options ? options->global_ranks_in_group : std::vector<uint64_t>();
    auto part = backend_->split(store, ranks, options);
    if (options) options->global_ranks_in_group = whole;
    return tapped(std::move(part), name);
  }
  if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
  auto part = carrier_->split(ranks, name, options ? options->timeout : kNoTimeout);
  return c10::make_intrusive<Tap>(std::move(part.backend), log_->for_group(name),
                                  std::move(part.carrier));
}

BackendPtr Tap::merge(const c10::intrusive_ptr<c10d::Store>& store,
                      const c10::intrusive_ptr<Options>& options, const int& rank,
                      const int& size) {
  return tapped(backend_->merge(store, options, rank, size), next_name("merged"));
}

// The non-virtual getter reads the wrapper's own copy.
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

// Sees every collective: wraps a backend, records each call, injects what the case planted, and
// passes the call on. The only class of the tree that overrides c10d::Backend's functions.
//
// A collective is recorded before the backend sees it, so that one that never returns is in the
// journal; and recorded as done when it completes without an error. Operations have the names of
// Backend's functions ("allreduce", "_allgather_base"). `elements` and `dtype` are those of what
// this rank sends; for recv, which sends nothing, of what it receives. `root` is the root, or the
// peer of a send or recv.
#pragma once

#include "harness/history/history.h"
#include "harness/rank/call.h"
#include "harness/rank/call_sites.h"
#include "harness/rank/injector.h"
#include "harness/rank/late_results.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace lockstep {

class RecordWriter;

// The collectives of one rank in one group. Thread-safe: backends complete on threads of their own.
class TapLog : public std::enable_shared_from_this<TapLog> {
 public:
  // All outlive every collective of the group. `clock` returns nanoseconds that the ranks of a
  // world can compare.
  using Clock = std::function<int64_t()>;
  TapLog(std::string group, RecordWriter& journal, Injector& injector, CallSites& sites,
         Clock clock = monotonic_ns);
  static int64_t monotonic_ns();

  // Injections strike, then the collective is on record.
  struct Issued {
    Collective collective;
    CollectiveFault treatment;
  };
  Issued issue(const Call& call);

  // Records `sequence` as done when `work` completes; now, where it has.
  c10::intrusive_ptr<c10d::Work> watch(int64_t sequence, c10::intrusive_ptr<c10d::Work> work);

  // At its first call for `sequence`; later calls do nothing. Now, or at `ns`.
  void done(int64_t sequence, std::optional<int64_t> ns = {});

  // Records what has completed but was not recorded yet: a thread that waits for a future may wake
  // before the future has called back. Call it when the program has returned.
  void settle();

  // Settles; then the number of collectives that were issued and are not done.
  size_t pending();

  const std::string& group() const { return group_; }
  std::shared_ptr<TapLog> for_group(const std::string& name) const;

 private:
  const std::string group_;
  RecordWriter& journal_;
  Injector& injector_;
  CallSites& sites_;
  const Clock clock_;
  mutable std::mutex mutex_;
  int64_t next_ = 0;
  using HasSucceeded = std::function<bool()>;
  std::map<int64_t, HasSucceeded> pending_;  // not done; null where there is nothing to query
};

// Carries collectives in a backend's place.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Reports to `log` when the collective is done.
  virtual c10::intrusive_ptr<c10d::Work> carry(Call call, const Collective& issued,
                                               const std::shared_ptr<TapLog>& log) = 0;

  // This rank's side of a group of `members` of this one, ascending and including this rank, whose
  // operations end after `timeout`; zero: after that of a group that was given none.
  struct Part {
    c10::intrusive_ptr<c10d::Backend> backend;
    std::shared_ptr<Carrier> carrier;
  };
  virtual Part split(const std::vector<int>& members, const std::string& name,
                     std::chrono::milliseconds timeout) = 0;
};

class Tap final : public c10d::Backend {
 public:
  // With a carrier, `backend` does everything but collectives. `hold_up` delays what is injected as
  // late; without it, for tensors of the CPU, nothing is delayed.
  Tap(c10::intrusive_ptr<c10d::Backend> backend, std::shared_ptr<TapLog> log,
      std::shared_ptr<Carrier> carrier = nullptr, HoldUp hold_up = nullptr);

  // From now on collectives go into `log`: a group that outlives a case starts the next one anew.
  // No collective may be under way.
  void follow(std::shared_ptr<TapLog> log) {
    log_ = std::move(log);
    made_ = 0;
    splits_.clear();
  }

  bool supportsSplitting() const override;
  bool supportsCoalescing() const override;
  bool supportsTimeEstimation() const override;
  bool supportsShrinking() const override;
  c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                                     const c10::intrusive_ptr<Options>& options) override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  const std::string getBackendName() const override;
  c10::intrusive_ptr<Options> getBackendOptions() override;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes,
                                               std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs,
                                          std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& options, const int& rank,
                                    const int& size) override;
  void setGroupUid(const std::string& uid) override;
  void eagerConnectSingleDevice(at::Device device) override;
  c10d::ErrorType getError() override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  void abort() override;
  void shutdown() override;

 private:
  template <class Issue>
  c10::intrusive_ptr<c10d::Work> through(Call call, const Issue& issue);
  c10::intrusive_ptr<Backend> tapped(c10::intrusive_ptr<Backend> backend, const std::string& name);
  std::string next_name(const std::string& how);

  c10::intrusive_ptr<Backend> backend_;
  std::shared_ptr<TapLog> log_;
  std::shared_ptr<Carrier> carrier_;
  LateResults late_results_;
  int made_ = 0;                            // groups shrunk or merged out of this one
  std::map<std::vector<int>, int> splits_;  // groups split off this one, by their ranks
};

}  // namespace lockstep

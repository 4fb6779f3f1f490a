#include "harness/worlds/forked/rank.h"

#include "harness/base/text.h"
#include "harness/process/zygote.h"
#include "harness/worlds/ambient.h"
#include "harness/worlds/forked/group.h"
#include "harness/worlds/holdings.h"
#include "harness/worlds/rank_run.h"
#include "harness/worlds/subject.h"

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

// The variables that launchers set for their processes, so that code which reads them finds the
// right values.
void set_environment(int rank, int size) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
}

// As in a Python program: writing to a dead peer is an error, not the end of the process.
void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);
}

// By how much a rank's own timeout exceeds the case's: the deadline decides, and reports "stuck". A
// rank that left a moment earlier would break its peers, whose stacks are just being taken.
constexpr std::chrono::minutes kBeyondDeadline{1};

// A rank that takes longer than this after every rank has ended counts as left behind.
constexpr std::chrono::milliseconds kLastingMost{500};

// The group of the whole world is `kept` or, where that is null, made at the program's first use.
RankRunParts parts_of(const ForkedPlace& place, Clock::time_point deadline,
                      const RankDevice& device, const TappedGroup* kept) {
  const auto patience =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()) + kBeyondDeadline;
  const auto store = place.rendezvous.open_store(patience);
  return {
      .rank = place.rank,
      .size = place.size,
      .journal = place.journal,
      .device = device.device,
      .store = store,
      .make_group =
          [=, rank = place.rank, size = place.size, listens_on = place.rendezvous.listens_on()](
              const std::vector<int>& ranks, const std::shared_ptr<TapLog>& log) {
            if (!kept || ranks.size() != static_cast<size_t>(size))
              return make_group(ranks, rank, patience, store, listens_on, device, log).group;
            for (const auto& tap : kept->taps) tap->follow(log);
            return kept->group;
          },
      .scratch = place.scratch,
      .device_error =
          [backend = device.backend] { return backend ? backend->device_error() : std::string(); }};
}

// Note [Threads after a fork]
// In a forked process LibTorch makes its thread pool anew at the first use, which autograd's
// threads of two devices must not do at once: one would find no pool, and abort.
RankDevice device_at(const ForkedPlace& place) {
  at::set_num_threads(at::get_num_threads());
  const auto* const backend = place.backend;
  if (!backend) return {};
  if (place.device) return {backend, backend->take(*place.device, place.rank)};
  const auto seen = backend->seen();
  if (!seen.problem.empty()) throw std::runtime_error("there is no device: " + seen.problem);
  const auto world = std::to_string(getppid());
  const auto device = device_on_this_host(seen, place.rank, place.size, world);
  return {backend, backend->take(device, place.rank)};
}

}  // namespace

int run_rank(const CaseAssignment& assignment, const ForkedPlace& place,
             Clock::time_point deadline) {
  set_signals();
  set_environment(place.rank, place.size);
  const RankDevice device = device_at(place);
  // Never destroyed, nor its groups.
  auto& run = *new RankRun(assignment, parts_of(place, deadline, device, nullptr));
  if (!ended_well(run.run())) _exit(1);
  place.rendezvous.wait_for_others(place.size, deadline + kBeyondDeadline);
  _exit(kCaseHasRun);
}

namespace {

// A world's own group may wait without limit: the server keeps the deadlines.
constexpr std::chrono::hours kKeptPatience{24};

// The process of a rank between two cases.
class WarmRank {
 public:
  explicit WarmRank(const ForkedPlace& is) : is_(is) {
    set_environment(is.rank, is.size);
    device_ = device_at(is);
    const auto store = is.rendezvous.open_store(kKeptPatience);
    std::vector<int> all(static_cast<size_t>(is.size));
    std::iota(all.begin(), all.end(), 0);
    const auto unrecorded = std::make_shared<TapLog>("world", nobody_, no_injections_, no_sites_);
    kept_ = make_group(all, is.rank, kKeptPatience, store, is.rendezvous.listens_on(), device_,
                       unrecorded);
    use_once();
    ambient_ = Ambient::capture();
    holdings_ = Holdings::now();
  }

  // Returns what the case left behind in this process, a sentence each; nothing if it ended badly.
  std::optional<std::vector<std::string>> run(const CaseAssignment& order) {
    ambient_.restore();
    const auto deadline = Clock::now() + order.request.time_limit;
    auto run = std::make_unique<RankRun>(order, parts_of(is_, deadline, device_, &kept_));
    if (!ended_well(run->run())) return {};
    is_.rendezvous.wait_for_others(is_.size, deadline + kBeyondDeadline);
    auto left = pending(*run);
    // With collectives under way destroying their group would block; the process ends anyway.
    if (left.empty())
      run.reset();
    else
      run.release();
    append(left, changes());
    return left;
  }

 private:
  // Makes now what is made at its first use: threads of the autograd engine, buffers of Gloo.
  // LibTorch sets the number of intra-op threads of a thread when the thread first needs it, once:
  // autograd's thread of a device would keep a case's number, and a team of OpenMP of that size.
  void use_once() {
    for (const c10::Device& device : {c10::Device(c10::kCPU), device_.device}) {
      const auto parameter = torch::ones({1}, device).requires_grad_();
      parameter.register_hook([](const at::Tensor&) { at::get_num_threads(); });
      (parameter * 2).backward();
      std::vector<at::Tensor> tensors{torch::ones({1}, device)};
      kept_.group->allreduce(tensors)->wait();
      tensors.front().cpu();
    }
    auto generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(0);
  }

  // One that nobody waited for, after an exception, may end a moment later than the program.
  static std::vector<std::string> pending(const RankRun& run) {
    const auto until = Clock::now() + kLastingMost;
    while (run.pending_collectives() > 0 && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto count = run.pending_collectives();
    if (count == 0) return {};
    return {counted(count, "collective") + " still under way"};
  }

  // The generator, grad mode and the default dtype are restored before every case.
  std::vector<std::string> changes() const {
    std::vector<std::string> out;
    auto now = Ambient::capture();
    for (auto& difference : ambient_.lasting_differences(now)) out.push_back(std::move(difference));
    append(out, holdings_.lasting_more());
    return out;
  }

  static void append(std::vector<std::string>& all, std::vector<std::string> more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  const ForkedPlace& is_;
  std::vector<std::byte> scrap_ = std::vector<std::byte>(size_t{1} << 16);
  JournalWriter nobody_{scrap_};  // records what happens between cases
  Injector no_injections_{{}, 0, nobody_};
  CallSites no_sites_{nobody_, false};
  RankDevice device_;
  TappedGroup kept_;
  Ambient ambient_;
  Holdings holdings_;
};

}  // namespace

int serve_rank(const ForkedPlace& place, const std::function<std::optional<CaseAssignment>()>& next,
               const std::function<void(const std::vector<std::string>& left)>& done) {
  set_signals();
  auto& kept = *new WarmRank(place);  // never destroyed, nor its group
  while (const auto order = next()) {
    const auto left = kept.run(*order);
    if (left) done(*left);
    if (!left || !left->empty()) return 1;
  }
  return 0;
}

}  // namespace lockstep

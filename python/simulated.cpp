// Worlds of simulated ranks for tests in Python: its ranks are threads of this process that take
// turns, and their collectives are carried in memory (docs/simulation.md).
#include "harness/pytorch/loaded.h"
#include "harness/pytorch/pytorch.h"
#include "harness/rank/journal.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/trace.h"
#include "harness/worlds/sim/world.h"
#include "harness/worlds/subject.h"
#include "reports/findings/text.h"

#include <sys/mman.h>

namespace {

using namespace lockstep;

constexpr size_t kJournalBytes = size_t{16}
                                 << 20;  // of a rank; pages that nobody writes cost nothing
constexpr std::chrono::hours kVirtualTime{1000};  // no clock decides how a world ends

class Journals {
 public:
  explicit Journals(int size) : bytes_(kJournalBytes * static_cast<size_t>(size)) {
    start_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc();
    for (int rank = 0; rank < size; ++rank)
      all.emplace_back(static_cast<std::byte*>(start_) + kJournalBytes * static_cast<size_t>(rank),
                       kJournalBytes);
  }
  Journals(const Journals&) = delete;
  ~Journals() { ::munmap(start_, bytes_); }

  std::vector<std::span<std::byte>> all;  // by rank

 private:
  size_t bytes_;
  void* start_;
};

Scenario scenario_of(void* body) {
  Scenario scenario;
  scenario.name = "python";
  scenario.program = [body](const Case&, RankContext& here) {
    pytorch::loaded().run_rank(body, here.rank(), here.group());
  };
  return scenario;
}

History history_in(const std::vector<std::span<std::byte>>& journals) {
  std::vector<RankHistory> ranks;
  for (const auto& journal : journals)
    ranks.push_back(rank_history(JournalView(journal).frames(), "a simulated rank's journal"));
  return History(std::move(ranks));
}

Json report_on(const sim::SimReport& run, const History& history) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < history.ranks().size(); ++rank) {
    const auto& ending = history.ranks()[rank].ending;
    ranks.push_back(
        {{"ending", name_of(ending.kind)}, {"why", ending.why}, {"left", run.left[rank]}});
  }
  const auto apart = first_divergence_point(history);
  return {{"ranks", ranks},
          {"is_usable", !run.has_frozen_ranks},
          {"diverges", apart ? apart->text : ""},
          {"ladder", reports::lines_of(ladder(history))}};
}

Json simulated(const WorldSpec& spec, void* body) {
  static auto* const threads = new sim::RankThreads;  // frozen ones are never joined
  static const Subject subject{.name = "python"};
  const Scenario scenario = scenario_of(body);
  const CaseAssignment assignment(
      {.scenario = scenario.name, .size = spec.size, .time_limit = kVirtualTime},
      {scenario.name, {{"world", to_json(spec)}}}, scenario, subject);
  // Frozen ranks go on referring to theirs.
  auto journals = std::make_unique<Journals>(spec.size);
  auto running = std::make_unique<std::atomic<int>>(-1);
  const auto run = sim::run_simulated({.rank_threads = *threads,
                                       .assignment = assignment,
                                       .journals = journals->all,
                                       .scratch = {},
                                       .refuses_threads = true,
                                       .running = *running,
                                       .redirect = [](int) {}});
  auto report = report_on(run, history_in(journals->all));
  if (run.has_frozen_ranks) {
    journals.release();
    running.release();
  }
  return report;
}

}  // namespace

// Runs body.run(rank, group) in each rank of the world that `world` describes, a WorldSpec's JSON,
// and calls `report` once, with a text of JSON: how the ranks ended and where their collectives
// diverge; or {"error": why} where nothing ran. A world with frozen ranks leaves this process
// unusable. The caller has let go of the interpreter's lock.
extern "C" __attribute__((visibility("default"))) void lockstep_simulate(
    const char* environment, const char* torch, const char* world, void* body,
    void (*report)(const char*)) {
  Json said;
  try {
    static const bool is_loaded = [&] {
      pytorch::be_hosted(environment, torch);
      pytorch::load();
      return true;
    }();
    static_cast<void>(is_loaded);
    said = simulated(from_json<WorldSpec>(Json::parse(world), "world"), body);
  } catch (const std::exception& error) {
    said = {{"error", error.what()}};
  }
  report(said.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

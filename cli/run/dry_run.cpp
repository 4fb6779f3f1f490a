#include "cli/run/dry_run.h"

#include "harness/base/text.h"
#include "reports/run_file.h"
#include "reports/style.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;
constexpr size_t kRunsMost = 20;  // of the newest

using Milliseconds = std::chrono::duration<double, std::milli>;

// Cases that were judged and the time that they took.
struct Past {
  int64_t cases = 0;
  Milliseconds took{};
  void add(const Result& result) {
    cases += result.judged;
    took += result.took;
  }
  std::optional<Milliseconds> time_of(int64_t of) const {
    if (cases == 0) return {};
    return took * (static_cast<double>(of) / static_cast<double>(cases));
  }
};

class PastRuns {
 public:
  explicit PastRuns(const fs::path& out) {
    std::vector<fs::path> folders;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(out / "runs", none))
      if (!entry.is_symlink(none)) folders.push_back(entry.path());
    std::sort(folders.rbegin(), folders.rend());  // their names begin with the time
    if (folders.size() > kRunsMost) folders.resize(kRunsMost);
    for (const auto& folder : folders) add(folder / "run.json");
  }

  std::optional<Milliseconds> time_of(const Job& job, int64_t cases) const {
    const auto own = by_job_.find(job.scenario.name + "\n" + key_of(job.setting));
    if (own != by_job_.end()) return own->second.time_of(cases);
    const auto alike = by_setting_.find(key_of(job.setting));
    return alike == by_setting_.end() ? std::nullopt : alike->second.time_of(cases);
  }

  // How much of the time of its results a run took: several run at once.
  double overlap() const { return results_ > Milliseconds{} ? runs_ / results_ : 1; }

 private:
  static std::string key_of(const Setting& setting) {
    return setting.subject + "\n" + setting.tier + "\n" + setting.backend;
  }

  // One that was cut off has none, and one of an older version says nothing here.
  void add(const fs::path& file) {
    try {
      const auto run = reports::read_run_file(file);
      if (run.interrupted) return;
      runs_ += run.took;
      for (const auto& result : run.results) {
        results_ += result.took;
        by_job_[result.scenario + "\n" + key_of(result.setting)].add(result);
        by_setting_[key_of(result.setting)].add(result);
      }
    } catch (const FieldError&) {
    }
  }

  std::map<std::string, Past> by_job_, by_setting_;
  Milliseconds runs_{}, results_{};
};

std::string seconds_text(std::optional<Milliseconds> time) {
  return time
             ? reports::seconds(std::chrono::duration_cast<std::chrono::milliseconds>(*time)) + " s"
             : "–";
}

// The effect of the options on the cases above.
std::string what_follows(const CampaignOptions& options) {
  if (!options.draws_on) return "";
  return "more cases are drawn then, until " +
         (options.time ? seconds_text(*options.time) + " are over" : std::string("one fails")) +
         (options.time && options.after_failure == AfterFailure::stop_all ? " or one fails" : "") +
         (options.time ? "; no case starts after that time\n" : "\n");
}

}  // namespace

std::string dry_run_text(const std::vector<Job>& jobs, const CampaignOptions& options,
                         const fs::path& out) {
  const PastRuns past(out);
  size_t name_width = 0, setting_width = 0;
  const auto setting_of = [](const Job& job) {
    return job.setting.subject + " " + job.setting.tier + " " + job.setting.backend;
  };
  for (const auto& job : jobs) {
    name_width = std::max(name_width, reports::width(job.scenario.name));
    setting_width = std::max(setting_width, reports::width(setting_of(job)));
  }
  std::string text;
  int64_t all = 0, unknown = 0;
  Milliseconds total{};
  for (const auto& job : jobs) {
    const auto cases = job.shard.count(static_cast<int64_t>(job.cases.size()));
    const auto time = cases == 0 ? Milliseconds{} : past.time_of(job, cases * options.repeat);
    all += cases;
    total += time.value_or(Milliseconds{});
    unknown += !time;
    text += "  " + reports::padded(job.scenario.name, name_width) + "  " +
            reports::padded(setting_of(job), setting_width) + "  " +
            (job.left_out.empty() ? reports::right_aligned(with_commas(cases), 8) +
                                        (cases == 1 ? " case   " : " cases  ") +
                                        reports::right_aligned(seconds_text(time), 8)
                                  : "skipped: " + job.left_out) +
            "\n";
  }
  text += counted(jobs.size(), "scenario") + "   " + counted(all, "case") + "   ";
  if (options.repeat > 1) text += "each up to " + with_commas(options.repeat) + " times   ";
  if (unknown == static_cast<int64_t>(jobs.size()))
    return text + "the time is not known: no earlier run is kept in " + (out / "runs").string() +
           "\n" + what_follows(options);
  text += "about " + seconds_text(total * past.overlap());
  if (unknown > 0)
    text += ", and " + counted(unknown, "scenario") + " of which the time is not known";
  return text + "\n" + what_follows(options);
}

}  // namespace lockstep::cli

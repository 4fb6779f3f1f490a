#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/print.h"
#include "cli/run/differences.h"
#include "cli/run/run_campaign.h"
#include "cli/run/run_jobs.h"
#include "cli/shrinking.h"
#include "cli/usage.h"
#include "harness/base/case.h"
#include "harness/base/text.h"
#include "harness/process/single_threaded.h"

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;

// A world that hangs costs it whole.
constexpr std::chrono::seconds kDeadline{10};

// Less than a run's, since a page has a sentence on each. Counted, not timed, so that the same
// cases come again.
constexpr int64_t kShrinkRuns = 150;
constexpr std::chrono::minutes kShrinkTime{5};

struct MatrixFlags {
  JobFlags jobs;
  std::string colour = "auto", file = "docs/matrix.md";
};

std::string usable_subjects(const Known& known) {
  std::vector<std::string> names;
  for (const auto& name : known.subjects.names())
    if (known.subjects.why_not(name).empty()) names.push_back(name);
  return joined(names, ",");
}

void refuse_unusable_subjects(const std::string& subjects, const Known& known) {
  for (const auto& name : split(subjects, ','))
    if (const auto reason = known.subjects.why_not(name); !reason.empty())
      throw UsageError("--subject " + name + ": " + reason);
}

// The folder of the page's case files, beside it.
fs::path folder_of(const fs::path& file) {
  return file.parent_path() / file.stem();
}

// The smallest cases alone: how each was drawn is the archive's to know.
void write_cases(const Run& run, const fs::path& folder) {
  for (const auto& result : run.results) {
    if (!result.failure || result.failure->case_file.empty()) continue;
    const auto& from = result.failure->case_file;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw UsageError(folder.string() + ": cannot be written: " + error.message());
    write_report(folder / from.filename(), case_file({.c = read_case_file(from).c}));
  }
}

void write_matrix(Run& run, const fs::path& file, const std::string& command) {
  if (run.interrupted) return;
  write_cases(run, folder_of(file));
  write_report(file, reports::matrix_page(run, {.command = command,
                                                .folder = file.stem().string(),
                                                .differences = deliberate_differences()}));
  // The page exists to show where subjects differ, so differing is no failure.
  if (run.canary != Run::Canary::passed && run.exit_code == kFailed) run.exit_code = kHeld;
}

int matrix(MatrixFlags flags, const Known& known, SingleThreaded alone) {
  auto& wanted = flags.jobs;
  if (wanted.subjects.empty()) wanted.subjects = usable_subjects(known);
  refuse_unusable_subjects(wanted.subjects, known);
  const auto draw = draw_options_of(wanted);
  check_writable(flags.file);
  // Findings of an earlier matrix recur when their cases are drawn again; they are not run first.
  std::error_code none;
  fs::remove_all(fs::path(wanted.out) / "failures", none);
  auto jobs = jobs_of(wanted, known, draw);
  CommandOptions options{.seed = draw.seed, .out = wanted.out, .colour = flags.colour};
  options.detail = Detail::summary;
  options.campaign.time_limit = kDeadline;
  options.campaign.slots = default_slots();
  options.campaign.shrink = shrink_options({}, known, /*launched=*/false);
  options.campaign.shrink->runs = kShrinkRuns;
  options.campaign.shrink->time = kShrinkTime;
  const auto command = "./lockstep matrix --subject " + wanted.subjects;
  options.at_end = [&](Run& done) { write_matrix(done, flags.file, command); };
  auto canaries = canaries_of(known, jobs.front().setting, {});
  return run_campaign(known, std::move(alone), std::move(jobs), std::move(canaries), options);
}

}  // namespace

void add_matrix(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("matrix", "every claim over several subjects, as a page");
  const auto flags = std::make_shared<MatrixFlags>();
  auto& jobs = flags->jobs;
  jobs.tiers = "sim";
  jobs.draw.cases = 8;
  jobs.seed = 1;
  jobs.out = ".lockstep/matrix";
  add_selection(*command, jobs.selection);
  const auto option = value_options_of(*command);
  option("--subject", jobs.subjects, "SUBJECTS",
         "whose data parallelism is compared (all that this machine has)");
  option("--tier", jobs.tiers, "TIERS", "where ranks live: sim, warm, cold");
  option("--cases", jobs.draw.cases, "N", "cases drawn for a scenario, besides those it always has",
         whole_numbers(1, kCasesMost))
      ->default_str("8");
  option("--seed", jobs.seed, "SEED", "the same seed draws the same cases", seed_value)
      ->default_str("1");
  option("--file", flags->file, "FILE", "the page; its case files are in a folder beside it");
  option("--out", jobs.out, "FOLDER", "where runs are kept");
  add_colour(*command, flags->colour);
  command->callback(
      [flags, &known, &alone, &status] { status = matrix(*flags, known, std::move(alone)); });
}

}  // namespace lockstep::cli

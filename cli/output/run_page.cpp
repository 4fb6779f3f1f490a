#include "cli/output/run_page.h"

#include "harness/archive/kept_histories.h"
#include "reports/pages/run_page.h"

namespace lockstep::cli {

std::string page_of(const Run& run, const std::vector<std::filesystem::path>& folders) {
  reports::RunPage page{.run = run};
  for (const auto& folder : folders)
    for (auto& kept : read_histories(folder / "histories"))
      page.cases.push_back({.c = std::move(kept.c),
                            .setting = std::move(kept.setting),
                            .number = kept.number,
                            .holds = kept.verdict == Verdict::Kind::pass,
                            .history = std::move(kept.history)});
  return reports::run_page(page);
}

}  // namespace lockstep::cli

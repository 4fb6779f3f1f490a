#include "cli/case_in_file.h"
#include "cli/commands/commands.h"
#include "cli/known.h"
#include "harness/campaign/tally.h"
#include "harness/recorded/case_history.h"
#include "harness/worlds/about.h"

namespace lockstep::cli {

JudgeCase judge_case_by(const Known& known) {
  return [&known](const std::filesystem::path& histories, const std::string& case_file) -> Run {
    const auto [scenario, saved] = read_case(known, case_file);
    use_one_intra_op_thread();
    const auto history = recorded::read_case_history(histories, saved.c);
    const Setting setting{.subject = "program", .tier = kRecorded, .backend = "unknown"};
    Tally tally(
        {.scenario = scenario, .setting = setting, .cases = CaseList(std::vector{saved.c})});
    tally.record(*tally.next(), judge(scenario, saved.c, history));
    return {.libtorch = about_torch().version,
            .settings = {setting},
            .jobs = {summary_of(tally.job())},
            .results = {tally.result()}};
  };
}

}  // namespace lockstep::cli

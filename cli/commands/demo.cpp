#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/output/demonstration.h"
#include "cli/output/guess.h"
#include "cli/print.h"
#include "cli/run/run_campaign.h"
#include "cli/usage.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/campaign/tally.h"
#include "harness/process/single_threaded.h"
#include "harness/process/start_program.h"
#include "harness/worlds/about.h"
#include "harness/worlds/tiers.h"

#include <algorithm>
#include <filesystem>

namespace lockstep::cli {

namespace {

// A thousand ranks take seconds, and on a busy machine longer than anyone waits for a hang.
constexpr std::chrono::seconds kDeadline{30}, kDeadlineOfLargeWorlds{110};
constexpr int kLargeWorld = 100;

struct DemoFlags {
  std::string name, html, wrong, subject, tier = "sim", colour = "auto";
  std::vector<std::string> set;
  bool opens = false, guesses = false, shows_settings = false;
};

constexpr char kBeliefs[] = "beliefs", kAll[] = "all";

const Demo& demo_named(const Known& known, const std::string& name) {
  std::vector<std::string> names;
  for (const auto* demos : {&known.demos, &known.beliefs})
    for (const auto& demo : *demos) {
      if (demo.name == name) return demo;
      if (demos == &known.demos) names.push_back(demo.name);
    }
  auto others = names;
  if (!known.beliefs.empty()) others.emplace_back(kBeliefs);
  const std::string numbered = known.beliefs.empty() ? ""
                                                     : ", " + known.beliefs.front().name + " to " +
                                                           known.beliefs.back().name;
  throw UsageError("no demonstration is named '" + name + "'" + did_you_mean(name, others) +
                   "; known: " + joined(others, ", ") + numbered);
}

Demo::Values values_of(const std::vector<std::string>& assignments) {
  Demo::Values values;
  for (const auto& assignment : assignments) {
    const auto equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--set " + assignment + ": expected KEY=VALUE");
    const auto key = assignment.substr(0, equals);
    if (std::any_of(values.begin(), values.end(),
                    [&](const auto& other) { return other.first == key; }))
      throw UsageError("--set " + key + "=... is given twice");
    values.emplace_back(key, assignment.substr(equals + 1));
  }
  return values;
}

Setting setting_of(const Demo& demo, const DemoFlags& flags, const Known& known) {
  const auto subject = flags.subject.empty() ? default_subject(known) : flags.subject;
  std::vector<std::string> tiers;
  for (const auto& tier : known_tiers())
    if (!tier.is_launched) tiers.emplace_back(tier.name);
  const auto one = [](const std::string& flag, const std::string& text,
                      const std::vector<std::string>& given) {
    if (given.size() > 1) throw UsageError(flag + " " + text + ": a demonstration takes one");
    return given.front();
  };
  const auto tier = one("--tier", flags.tier, words("--tier", flags.tier, tiers));
  if (demo.in_virtual_time && !find_tier(tier)->is_deterministic)
    throw UsageError("--tier " + tier + ": " + demo.name +
                     " shows virtual time, which only simulated worlds have");
  const auto chosen = one("--subject", subject, subjects_to_run(subject, known));
  if (const auto reason = known.subjects.why_not(chosen); !reason.empty())
    throw UsageError("--subject " + chosen + ": " + reason);
  return cli::setting_of(chosen, tier, Setting().backend);
}

std::string command_of(const std::string& name, const std::string& mistake, const DemoFlags& flags,
                       const Known& known) {
  std::string command = shell_word(known.program) + " demo " + name;
  for (const auto& assignment : flags.set) command += " --set " + shell_word(assignment);
  if (!mistake.empty()) command += " --wrong " + mistake;
  if (!flags.subject.empty()) command += " --subject " + shell_word(flags.subject);
  return command + (flags.tier == DemoFlags().tier ? "" : " --tier " + flags.tier);
}

void open_page(const std::string& path) {
  if (const auto why_not = start_program({"xdg-open", path}); !why_not.empty())
    throw UsageError("--open: " + path + " is written, but xdg-open cannot be started: " + why_not);
}

// Where demonstrations run: it knows them before it forks.
class Stage {
 public:
  Stage(const std::vector<const Demo*>& demos, int ranks_most, const DemoFlags& flags,
        const Known& known, SingleThreaded alone)
      : flags_(flags), known_(known), setting_(setting_of(*demos.front(), flags, known)) {
    for (const auto* demo : demos) (void)setting_of(*demo, flags, known);  // refuses it
    ForkedOptions options{.ranks_most = ranks_most};
    std::erase_if(options.backends,
                  [&](const auto& each) { return each.name != setting_.backend; });
    std::vector<Scenario> scenarios;
    for (const auto* demo : demos) scenarios.push_back(demo->scenario);
    lanes_ = forked_lanes(std::move(alone), scenarios, known.subjects, 1, options);
    use_one_intra_op_thread();
  }

  Demonstration run(const Demo& demo, const std::string& mistake) {
    const auto c = demo.case_of(values_of(flags_.set), mistake);
    const auto history = lanes_.front()->run(
        demo.scenario, c, setting_,
        {.time_limit = world_size(c) < kLargeWorld ? kDeadline : kDeadlineOfLargeWorlds});
    const auto verdict = judge(demo.judged_with(mistake), c, history);
    Demonstration out{.demo = demo,
                      .c = c,
                      .result = {.scenario = demo.scenario.name,
                                 .setting = setting_,
                                 .kind = result_kind(verdict.kind),
                                 .worst = verdict},
                      .story = {},
                      .mistake = mistake,
                      .command = command_of(demo.name, mistake, flags_, known_)};
    try {
      out.story = demo.show(c, history);
    } catch (const NotSeen&) {  // Whatever a rank did not record the verdict explains.
    }
    return out;
  }

  // The same demonstration with every other mistake, and without one.
  std::vector<Demonstration> others(const Demo& demo, const std::string& mistake) {
    std::vector<Demonstration> all;
    if (!mistake.empty()) all.push_back(run(demo, ""));
    for (const auto& each : demo.mistakes)
      if (each.name != mistake) all.push_back(run(demo, each.name));
    return all;
  }

 private:
  const DemoFlags& flags_;
  const Known& known_;
  const Setting setting_;
  std::vector<std::unique_ptr<Tier>> lanes_;
};

int show_demo(const DemoFlags& flags, const Known& known, SingleThreaded alone) {
  const auto& demo = demo_named(known, flags.name);
  if (flags.opens && flags.html.empty())
    throw UsageError("--open shows the page that --html FILE writes: give both");
  if (flags.shows_settings) {
    print(settings_text(demo, known.program));
    return kHeld;
  }
  check_writable(flags.html);
  const int world = world_size(demo.case_of(values_of(flags.set), flags.wrong));
  Stage stage({&demo}, world, flags, known, std::move(alone));
  const auto shown = stage.run(demo, flags.wrong);
  if (shown.result.kind == Result::Kind::skip)
    throw UsageError("subject " + shown.result.setting.subject + ": " +
                     shown.result.worst.findings.front().diagnosis);
  auto style = style_of_stdout(flags.colour);
  if (style.columns == 0) style.columns = kColumnsOfPaper;
  if (flags.guesses && shown.story && shown.story->question) ask(*shown.story->question, style);
  print_shown(demonstration_text(shown, known, style));
  if (!flags.html.empty())
    write_report(flags.html, demonstration_page(shown, stage.others(demo, flags.wrong), known));
  if (flags.opens) open_page(flags.html);
  Run run;
  run.results = {shown.result};
  return exit_code_of(run);
}

// A page for each demonstration and belief, and one that lists them. Ends as `demo` of them all.
int write_site(const DemoFlags& flags, const Known& known, SingleThreaded alone) {
  if (flags.html.empty()) throw UsageError("demo all writes a folder of pages: give --html FOLDER");
  if (!flags.set.empty() || !flags.wrong.empty() || flags.guesses || flags.shows_settings)
    throw UsageError("demo all shows each with its defaults and each of its mistakes");
  std::vector<const Demo*> demos;
  for (const auto* list : {&known.demos, &known.beliefs})
    for (const auto& demo : *list) demos.push_back(&demo);
  if (demos.empty()) throw NothingSelected("this program has no demonstrations");
  const std::filesystem::path folder = flags.html;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UsageError(folder.string() + ": cannot be made: " + error.message());
  Stage stage(demos, ForkedOptions().ranks_most, flags, known, std::move(alone));
  Run run;
  std::vector<Demonstration> shown;
  for (const auto* demo : demos) {
    shown.push_back(stage.run(*demo, ""));
    run.results.push_back(shown.back().result);
    write_report(
        folder / page_name(*demo),
        demonstration_page(shown.back(), stage.others(*demo, ""), known, Neighbours::beside));
  }
  write_report(folder / "index.html", site_index(shown, known));
  if (flags.opens) open_page((folder / "index.html").string());
  return exit_code_of(run);
}

int list_demos(const DemoFlags& flags, const Known& known) {
  const bool lists_beliefs = flags.name == kBeliefs;
  if (!flags.set.empty() || !flags.wrong.empty() || !flags.html.empty() || flags.opens ||
      flags.guesses || flags.shows_settings)
    throw UsageError("demo NAME takes these flags; demo and demo beliefs list the names");
  if ((lists_beliefs ? known.beliefs : known.demos).empty())
    throw NothingSelected("this program has no demonstrations");
  print(lists_beliefs ? beliefs_text(known) : list_text(known));
  return kHeld;
}

}  // namespace

void add_demo(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand(
      "demo", "a small case in a real world, with its picture; alone, the list of them");
  const auto flags = std::make_shared<DemoFlags>();
  const auto option = value_options_of(*command);
  command
      ->add_option("NAME", flags->name,
                   "a demonstration; beliefs: the list of beliefs; all: pages of all of them")
      ->check(not_empty())
      ->type_name("");
  command->add_option("--set", flags->set, "changes a setting; may be given again")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command->add_flag("--settings", flags->shows_settings, "print its settings and mistakes");
  option("--wrong", flags->wrong, "MISTAKE", "plants a usual mistake and shows what finds it");
  command->add_flag("--guess", flags->guesses, "asks for a value before it is shown");
  option("--html", flags->html, "FILE",
         "writes a page with the pictures, each mistake and the numbers; of all: a folder");
  command->add_flag("--open", flags->opens, "opens that page");
  option("--tier", flags->tier, "TIER", "where ranks live: sim, warm, cold");
  option("--subject", flags->subject, "SUBJECT", "whose data parallelism is shown");
  add_colour(*command, flags->colour);
  command->callback([flags, &known, &alone, &status] {
    status = flags->name == kAll ? write_site(*flags, known, std::move(alone))
             : flags->name.empty() || flags->name == kBeliefs
                 ? list_demos(*flags, known)
                 : show_demo(*flags, known, std::move(alone));
  });
}

}  // namespace lockstep::cli

#include "lockstep/harness.h"

#include "cli/exit_codes.h"
#include "cli/main.h"
#include "cli/print.h"
#include "scenarios/catalogue.h"

#include <set>

namespace lockstep {

namespace {

bool offers_nothing(const Subject& subject) {
  return !subject.wrap && !subject.shard && !subject.sync_batch_norm && !subject.norm_layers &&
         !subject.averaged_sgd && !subject.sharded_optimizer && !subject.checkpoints &&
         !subject.collective && !subject.print_on_rank_0 && !subject.random_split;
}

// Why these cannot be judged; empty: they can.
std::string misuse_of(const std::vector<Subject>& subjects) {
  if (subjects.empty())
    return "lockstep::main was given no subject: call lockstep::main(argc, argv, {my_subject()})";
  std::set<std::string> seen;
  for (const auto& subject : subjects) {
    const std::string& name = subject.name;
    if (name.empty()) return "lockstep::main was given a subject without a name";
    if (name.find(',') != std::string::npos)
      return "the subject '" + name +
             "' has a comma in its name, which separates names in --subject";
    if (!seen.insert(name).second)
      return "lockstep::main was given two subjects that are named '" + name + "'";
    if (offers_nothing(subject))
      return "the subject '" + name + "' has no part: give it one, such as wrap or shard";
  }
  return "";
}

}  // namespace

int main(int argc, char** argv, std::vector<Subject> subjects) {
  if (const auto misuse = misuse_of(subjects); !misuse.empty()) {
    cli::print_to_stderr(misuse);
    return cli::kUsage;
  }
  return main(argc, argv, Subjects(std::move(subjects)), catalogue());
}

}  // namespace lockstep

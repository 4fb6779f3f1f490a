// Scenarios whose cases are said in words and are not written as programs yet.
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

#include <algorithm>

namespace lockstep::scenarios::standalone {

namespace {

// --- sampler ------------------------------------------------------------------------------------

std::string acts_in_words(const Json& value) {
  const Words amounts{{"draw", "draws "},
                      {"resize", "takes a dataset of "},
                      {"epoch", "set_epoch("},
                      {"save at", "saves at "}};
  const Words others{{"begin", "begins a pass"},
                     {"copy", "goes on with a copy"},
                     {"turn", "goes on with the copy that it left"},
                     {"save", "saves"},
                     {"load", "loads"},
                     {"restart", "loads into a new sampler"},
                     {"reseed", "loads into a sampler with another option"}};
  std::vector<std::string> parts;
  for (const auto& act : value.at("acts")) {
    const auto kind = act.at("act").get<std::string>();
    const auto amount = amounts.find(kind);
    parts.push_back(amount == amounts.end()
                        ? others.at(kind)
                        : amount->second + std::to_string(number(act, "amount")) +
                              (kind == "epoch" ? ")" : ""));
  }
  return "a sampler of " + counted(number(value, "length"), "sample") + ": " + in_order(parts);
}

// --- hooks and averages of models ---------------------------------------------------------------

std::string hook_in_words(const Json& value) {
  const auto& hook = value.at("hook");
  const auto around = hook.at("around").get<std::string>();
  auto out = "registers the communication hook " + hook.at("kind").get<std::string>() +
             (around == "none" ? "" : " inside " + around) + ", " + steps_text(value);
  if (const auto reload = number(value, "reload"); reload > 0)
    out +=
        "; before step " + std::to_string(reload) + " saves the hook and loads it into a new one";
  if (!value.at("inputs").empty())
    out += "; in a join, ranks have inputs in so many steps: " + value.at("inputs").dump() +
           ", and sums are divided by " +
           (value.at("divisor") == "live" ? "who has some" : "the world's size");
  return out;
}

std::string averaging_in_words(const Json& value) {
  auto out = "ranks train on their own and average their models every " +
             counted(number(value, "period"), "step");
  if (const auto levels = value.at("levels").size(); levels > 0)
    out += ", groups of them more often";
  if (const auto warmup = number(value, "warmup_steps"); warmup > 0)
    out += ", after " + counted(warmup, "step") + " of warm-up";
  if (value.at("gradients") == "post_local_sgd")
    out += "; until step " + std::to_string(number(value, "start")) + " gradients are averaged";
  if (const auto restart = number(value, "restart"); restart > 0)
    out += "; before step " + std::to_string(restart) + " all is saved and loaded";
  return out + "; " + steps_text(value);
}

std::string sharded_in_words(const Json& value) {
  auto out = value.at("optimizer").get<std::string>() +
             " whose state is divided over the ranks (ZeroRedundancyOptimizer), " +
             steps_text(value);
  if (const auto resume = number(value, "resume"); resume > 0)
    out +=
        "; before step " + std::to_string(resume) + " its state is saved and loaded by " +
        counted(std::min(number(value, "resume_size"), number(value.at("world"), "size")), "rank");
  if (const auto slower = number(value, "slower"); slower > 0)
    out += "; before step " + std::to_string(slower) + " the learning rate of a group is halved";
  if (number(value, "lacking") > 0) out += "; some parameters have no gradient";
  return out;
}

// --- checkpoints, collectives, generators -------------------------------------------------------

std::string checkpoint_in_words(const Json& value) {
  const auto age = number(value, "age");
  return steps_text(value) + " with " + value.at("optimizer").get<std::string>() +
         ", saves after step " + std::to_string(number(value, "first_save")) +
         (number(value, "saves") > 1 ? " and, in all, " + counted(number(value, "saves"), "time")
                                     : std::string()) +
         ", loads the " +
         (value.at("loads_best").get<bool>() ? "best checkpoint"
          : age == 0                         ? "newest checkpoint"
                     : "checkpoint " + std::to_string(age) + " before the newest") +
         " into new objects and goes on" + late_rank_in_words(value, "late_rank");
}

std::string python_file_in_words(const Json& value) {
  const Words mistakes{{"lacks_an_entry", "lacks a tensor of the model"},
                       {"has_another_entry", "has a tensor that the model lacks"},
                       {"has_another_shape", "has a tensor of another shape"},
                       {"has_another_dtype", "has a tensor of another dtype"},
                       {"holds_a_class", "holds an argparse.Namespace"},
                       {"counts_a_fraction", "has half a step"},
                       {"lacks_a_group", "lacks a param group"},
                       {"lacks_a_state", "lacks an average of Adam"},
                       {"has_a_state_of_another_shape", "has a state of another shape"},
                       {"maximizes", "is of an optimizer that maximizes"},
                       {"is_of_another_optimizer", "is of another optimizer"},
                       {"is_cut", "is cut"},
                       {"is_missing", "is missing"},
                       {"has_other_values", "has other values"}};
  const auto optimizer = value.at("optimizer").get<std::string>();
  const auto damage = mistakes.find(value.at("damage").get<std::string>());
  const auto rank = number(value, "rank"), world = number(value.at("world"), "size");
  const auto text = "loads a file of Python's torch.save into a model of " +
                    counted(std::max<size_t>(value.at("tensors").size(), 1), "tensor") +
                    (optimizer == "none" ? "" : " and its optimizer (" + optimizer + ")");
  if (damage == mistakes.end()) return text;
  return text + "; " + (rank < 0 ? "it" : "that of rank " + std::to_string(rank % world)) + " " +
         damage->second;
}

std::string calls_in_words(const Json& value) {
  std::vector<std::string> parts;
  for (const auto& call : value.at("calls")) {
    const auto name = call.at("name").get<std::string>();
    const bool reduces = name == "all_reduce" || name == "reduce";
    parts.push_back(name + " of " + std::to_string(number(call, "rows")) + " x 2 " +
                    call.at("dtype").get<std::string>() +
                    (reduces ? " (" + call.at("reduction").get<std::string>() + ")" : ""));
  }
  return "calls " + (parts.empty() ? "all_reduce" : in_order(parts)) +
         late_rank_in_words(value, "late");
}

std::string disagreement_in_words(const Json& value) {
  auto argument = value.at("argument").get<std::string>();
  std::replace(argument.begin(), argument.end(), '_', ' ');
  const auto odd = number(value, "rank") % number(value.at("world"), "size");
  return "a collective call in which rank " + std::to_string(odd) + " has another " + argument +
         " than its peers, then the same call with one for all";
}

std::string generators_in_words(const Json& value) {
  const Words words{{"wrap", "wraps the model"},
                    {"step", "a step"},
                    {"local", "a step inside no_sync"},
                    {"mask", "a mask for dropout"},
                    {"epoch", "an epoch of the sampler"},
                    {"split", "a random split of the dataset"},
                    {"sum", "an all_reduce"},
                    {"check", "a comparison of the replicas"},
                    {"save", "saves a checkpoint"},
                    {"load", "loads it"}};
  return in_order(each_in(value.at("acts"), words)) +
         "; after each a number from the rank's own generator";
}

// --- replicas and buffers -----------------------------------------------------------------------

std::string changed_in_words(const Json& value) {
  const Words how{{"another", "to another value"},
                  {"sign", "in its sign"},
                  {"last_bit", "in its last bit"},
                  {"nan", "to NaN"}};
  std::vector<std::string> ranks;
  const auto world = number(value.at("world"), "size");
  for (const auto& each : value.at("ranks"))
    ranks.push_back(std::to_string(each.get<int64_t>() % world));
  const bool by_function = value.at("by") == "function";
  return (ranks.empty() ? std::string("no rank changes anything")
                        : (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks, ", ") +
                              (ranks.size() == 1 ? " changes" : " change") +
                              " one element of the wrapped model " +
                              how.at(value.at("how").get<std::string>())) +
         ", then " +
         (by_function ? std::string("all call check_replicas_equal")
                      : "a forward that compares replicas (check_replicas_every=" +
                            std::to_string(number(value, "period")) + ")");
}

std::string buffer_hook_in_words(const Json& value) {
  const Words words{{"synced", "one that synchronises"},
                    {"throws", "one that throws"},
                    {"no_sync", "one inside no_sync"},
                    {"no_grad", "one without gradients"},
                    {"eval", "one in evaluation mode"}};
  const auto& forwards = value.at("forwards");
  return "a hook averages buffers " +
         std::string(value.at("place") == "before_forward" ? "before" : "behind") +
         " the module's forward; forwards: " +
         (forwards.empty() ? words.at("synced") : in_order(each_in(forwards, words))) +
         (value.at("inputs").empty()
              ? ""
              : "; in a join, ranks make so many of them: " + value.at("inputs").dump() +
                    ", and all make one behind it");
}

// --- joins and failures -------------------------------------------------------------------------

std::string leftovers_in_words(const Json& value) {
  const auto window = number(value, "window");
  std::vector<std::string> inputs;
  for (const auto& each : value.at("inputs")) inputs.push_back(std::to_string(each.get<int64_t>()));
  return "in a join, ranks have " +
         (inputs.empty() ? std::to_string(window) : joined(inputs, ", ")) +
         " micro-batches and average after every " + std::to_string(window) +
         (window == 1   ? "st"
          : window == 2 ? "nd"
          : window == 3 ? "rd"
                        : "th");
}

std::string survivors_in_words(const Json& value) {
  const Words words{{"delay", "is late"},
                    {"slow", "is slow"},
                    {"kill", "is killed"},
                    {"stop", "is stopped"},
                    {"exit", "exits"},
                    {"throw", "throws"},
                    {"error", "receives an error from the backend"},
                    {"drop", "sends nothing in a collective"},
                    {"duplicate", "issues a collective twice"},
                    {"corrupt", "finds a bit flipped"},
                    {"late", "has its results late"}};
  std::vector<std::string> parts;
  for (const auto& each : value.at("world").at("injections")) {
    const auto collective = number(each, "collective");
    const auto& at = each.at("at");
    parts.push_back("rank " + std::to_string(number(each, "rank")) + " " +
                    words.at(each.at("kind").get<std::string>()) +
                    (collective >= 0 ? " at its collective #" + std::to_string(collective)
                                     : " in step " + std::to_string(number(at, "step"))));
  }
  return "wraps a network and " + steps_text(value) + "; " + in_order(parts);
}

std::string canary_in_words(const Json& value) {
  return "each of " + counted(number(value.at("world"), "size"), "rank") +
         " draws what rank 0 is to draw";
}

}  // namespace

Families described() {
  return {{"canary.every_rank_is_rank_zero", nullptr, canary_in_words},
          {"sampler.follows_its_program", nullptr, acts_in_words},
          {"hooks.average_within_bound", nullptr, hook_in_words},
          {"hooks.power_sgd_conserves", nullptr, hook_in_words},
          {"averaging.models_follow_the_rule", nullptr, averaging_in_words},
          {"averaging.sharded_optimizer_is_the_whole", nullptr, sharded_in_words},
          {"checkpoint.resume_is_going_on", nullptr, checkpoint_in_words},
          {"checkpoint.files_of_pytorch_are_read", nullptr, python_file_in_words},
          {"collectives.give_what_their_names_say", nullptr, calls_in_words},
          {"collectives.disagreements_are_reported", nullptr, disagreement_in_words},
          {"random.generators_are_left_alone", nullptr, generators_in_words},
          {"replicas.differences_are_reported", nullptr, changed_in_words},
          {"buffers.hook_averages", nullptr, buffer_hook_in_words},
          {"join.leftovers_stay", nullptr, leftovers_in_words},
          {"failures.reach_every_survivor", nullptr, survivors_in_words}};
}

}  // namespace lockstep::scenarios::standalone

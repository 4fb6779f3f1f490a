// If what ranks wrap differs, every rank throws the same sentence, before any tensor is sent; it
// names what differs first, the values and the ranks that have them. Ranks whose differences are
// allowed train.
//
// Tensors of equal size would be paired and summed silently; others would hang or abort the group;
// options that differ make ranks issue other collectives. The case says what all ranks have, and
// what some have instead: from both follow the sentence, by docs/semantics.md 2.7, or the averages.
// The trace shows what was sent before the ranks threw: an exchange of descriptions, no broadcast
// and no all-reduce. After a refusal the ranks wrap what all of them have and train it: the group
// is in step.
//
// A rank that gives no sentence, or another one, is shown by the sentences being equal; a rank that
// waits in vain hangs, which needs no check.
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/replicas/agreement.h"
#include "scenarios/replicas/assembled.h"
#include "scenarios/replicas/draw.h"
#include "scenarios/replicas/sentence.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::replicas_different_models_are_refused {
namespace {

using namespace replicas;

constexpr const char *kWrapping = "wrapping", *kWrapped = "wrapped", *kAfter = "after backward";
constexpr int kSteps = 2;  // the second one has rebuilt buckets

void train(const Differing& c, RankContext& here, Assembled& model, Replica& replica) {
  const auto names = names_of(given_to_all(c));
  here.enter(0, kWrapped);
  model.record_values(here, names);
  for (int step = 0; step < kSteps; ++step) {
    here.enter(step, "training");
    model.zero_grad();
    replica.backward(
        replica.forward(torch::tensor(coefficients(c, here.rank(), step), at::kDouble)));
    here.enter(step, kAfter);
    model.record_gradients(here, names);
  }
}

void program(const Differing& c, RankContext& here) {
  const auto given = given_to(c, here.rank());
  auto model = std::make_shared<Assembled>(given, here);
  std::unique_ptr<Replica> replica;
  std::string sentence;
  here.enter(0, kWrapping);
  try {
    replica = wrap(here, model, given.options);
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  here.record("refused", std::vector<int64_t>{replica ? 0 : 1});
  record_sentence(here, "sentence", sentence);
  if (!replica && can_train(c)) {
    here.enter(0, "wrapping what all have");
    const auto common = given_to_all(c);
    model = std::make_shared<Assembled>(common, here);
    replica = wrap(here, model, common.options);
  }
  if (replica) train(c, here, *model, *replica);
}

Findings every_rank_refuses(const Differing& c, const History& h) {
  const bool is_refused = expected_refusal(c).has_value();
  const auto explanation = [is_refused] {
    return Explanations{recorded_instead(
        is_refused ? Diagnosis{"wrapped_without_a_word",
                               "what differs from its peers', or cannot work, was wrapped"}
                   : Diagnosis{"refused_what_may_differ", "what can be trained was refused"},
        {int64_values({is_refused ? 0 : 1})})};
  };
  auto out = equal("Every rank must refuse what differs or cannot work, and nothing else",
                   {{.row = h.row({0, kWrapping}, "refused"),
                     .expected = {int64_values({is_refused ? 1 : 0})},
                     .explanations = explanation}});
  const auto sentences = h.row({0, kWrapping}, "sentence");
  if (is_in_our_words(sentences)) out += all_received_one_sentence(sentences);
  return out;
}

Findings the_sentence_names_what_differs(const Differing& c, const History& h) {
  const auto refusal = expected_refusal(c);
  if (!refusal || as_integers(h.row({0, kWrapping}, "refused").by_rank.front()).front() == 0)
    return {};
  const auto sentences = h.row({0, kWrapping}, "sentence");
  if (!is_in_our_words(sentences)) return {};
  const auto sentence = sentence_in(sentences, 0);
  const auto wrong = wrong_in_sentence(*refusal, sentence);
  if (!wrong) return {};
  return {{"The sentence must name what differs, the values and the ranks that have them",
           wrong->pattern, kWrapping,
           "expected " + wrong->text + "; every rank received: " + sentence}};
}

Findings no_tensor_travels(const Differing& c, const History& h) {
  if (!expected_refusal(c)) return {};
  for (int rank = 0; rank < h.size(); ++rank)
    for (const auto& collective : h.collectives(rank, {0, kWrapping}))
      if (collective.op.find("broadcast") != std::string::npos ||
          collective.op.find("allreduce") != std::string::npos)
        return {{"No tensor must travel before the ranks agree", "travelled_before_agreement",
                 kWrapping,
                 "rank " + std::to_string(rank) + " issued a " + collective.op + " of " +
                     std::to_string(collective.elements) + " " + collective.dtype +
                     " with models that differ"}};
  return {};
}

// The models that the ranks train in the end.
std::vector<Given> trained(const Differing& c) {
  std::vector<Given> all;
  const bool is_refused = expected_refusal(c).has_value();
  for (int rank = 0; rank < c.world.size; ++rank)
    all.push_back(is_refused ? given_to_all(c) : given_to(c, rank));
  return all;
}

size_t place_of(const Given& given, const std::string& name) {
  for (size_t i = 0; i < given.tensors.size(); ++i)
    if (given.tensors[i].name == name) return i;
  throw Refused("a rank lacks '" + name + "'");
}

TensorValue filled(const GivenTensor& tensor, double value) {
  const auto dtype = scalar_type(dtype_of(tensor));
  return recorded(torch::full(shape_of(tensor), value, at::kDouble), dtype);
}

TensorValue nothing() {
  return recorded(torch::empty({0}), at::kFloat);
}

// The name under which a rank synchronises the tensor of `name`: the first of its names that is not
// ignored. None if all are.
std::optional<std::string> synchronised_name(const Given& given, const std::string& name) {
  const auto same = given.tensors[place_of(given, name)].same_as;
  for (size_t i = 0; i < given.tensors.size(); ++i)
    if (given.tensors[i].same_as == same && !is_ignored(given, i)) return given.tensors[i].name;
  return {};
}

const GivenTensor& tensor_named(const Given& given, const std::string& name) {
  return given.tensors[given.tensors[place_of(given, name)].same_as];
}

Findings starts_as_rank_zero(const Differing& c, const History& h) {
  const auto all = trained(c);
  std::vector<Comparison> rows;
  for (const auto& name : names_of(given_to_all(c))) {
    std::vector<TensorValue> expected;
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto& given = all[static_cast<size_t>(rank)];
      const auto& tensor = tensor_named(given, name);
      const auto known = synchronised_name(given, name);
      const bool is_sent = known && given.options.init_sync;
      const auto value = is_sent ? initial_value(tensor_named(all.front(), *known), 0)
                                 : initial_value(tensor, rank);
      expected.push_back(tensor.memory == Memory::own ? filled(tensor, static_cast<double>(value))
                                                      : nothing());
    }
    rows.push_back({.row = h.row({0, kWrapped}, name), .expected = expected});
  }
  return equal(
      "What is wrapped must start as rank 0's, where init_sync is on and it is not ignored", rows);
}

// The gradient that this rank computes: the coefficients of all names that its tensor has.
double local_gradient(const Differing& c, const Given& given, const std::string& name, int rank,
                      int step) {
  double sum = 0;
  const auto by_place = coefficients(c, rank, step);
  const auto same = given.tensors[place_of(given, name)].same_as;
  for (const auto& each : given.tensors)
    if (each.same_as == same) sum += static_cast<double>(by_place[static_cast<size_t>(each.place)]);
  return sum;
}

double average_gradient(const Differing& c, const std::vector<Given>& all, const std::string& name,
                        int step) {
  double sum = 0;
  for (int rank = 0; rank < c.world.size; ++rank)
    sum += local_gradient(c, all[static_cast<size_t>(rank)], name, rank, step);
  return sum / c.world.size;
}

Findings is_averaged(const Differing& c, const History& h) {
  if (!why_shares_round(c.world).empty()) return {};  // What is refused is judged all the same.
  const auto all = trained(c);
  Findings out;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Comparison> rows;
    for (const auto& name : names_of(given_to_all(c))) {
      std::vector<TensorValue> expected;
      for (int rank = 0; rank < c.world.size; ++rank) {
        const auto& given = all[static_cast<size_t>(rank)];
        const auto& tensor = tensor_named(given, name);
        const auto known = synchronised_name(given, name);
        const double value = known ? average_gradient(c, all, *known, step)
                                   : local_gradient(c, given, name, rank, step);
        const bool learns = requires_gradient(tensor) && tensor.memory == Memory::own;
        expected.push_back(learns ? filled(tensor, value) : nothing());
      }
      rows.push_back({.row = h.row({step, kAfter}, name), .expected = expected});
    }
    out += equal("What is wrapped in the end must be averaged, and what is ignored must not", rows);
  }
  return out;
}

Findings the_group_stays_in_step(const Differing& c, const History& h) {
  if (expected_refusal(c) && !can_train(c)) return {};
  auto out = starts_as_rank_zero(c, h);
  out += is_averaged(c, h);
  return out;
}

bool has(const Differing& c, const std::vector<std::string>& words) {
  return std::any_of(c.differences.begin(), c.differences.end(), [&](const Difference& each) {
    return std::find(words.begin(), words.end(), each.what) != words.end();
  });
}

}  // namespace

Scenario different_models_are_refused() {
  return scenario<Differing>({
      .name = "replicas.different_models_are_refused",
      .claim = "Where models or options differ by rank, every rank refuses with one sentence that "
               "names what differs.",
      .in_full =
          "Where one rank's model or options differ, or those of one rank or all cannot work, "
          "every rank refuses with the same sentence, which names what differs, its values "
          "and the ranks that have "
          "them, before any tensor travels; what may differ is trained.",
      .exactness = "same sentence, bit-equal",
      .source = "docs/semantics.md 0.1, 1.1, 1.2 and 2.7",
      .not_covered = "layers of SyncBatchNorm, devices but the meta device, which forwards ranks "
                     "call",
      .usual_mistake = "building layers in an order that depends on the rank.",
      .tags = {"replicas"},
      .must_catch = {"agreement_knows_two_values", "agreement_leaves_out_an_option",
                     "agreement_leaves_out_sharing", "agreement_left_out",
                     "cannot_take_part_thrown_alone", "first_of_the_caps_checked",
                     "ignored_names_begin_others", "parameter_that_does_not_learn_delayed",
                     "wrong_alike_is_accepted"},
      .draws = 120,
      .start = {.world = {.size = 2}, .differences = {{}}, .tensors = {{}}},
      .every = every_difference,
      .cases = differing(),
      .program = program,
      .checks = {every_rank_refuses, the_sentence_names_what_differs, no_tensor_travels,
                 the_group_stays_in_step},
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Differing>},
                 {"several differences", 0.2,
                  [](const Differing& c) { return c.differences.size() > 1; }},
                 {"tensors differ", 0.4,
                  [](const Differing& c) { return has(c, differences_of_tensors()); }},
                 {"options differ", 0.25,
                  [](const Differing& c) { return has(c, differences_of_options()); }},
                 {"the same wrong options on all ranks", 0.01,
                  [](const Differing& c) {
                    const auto refusal = expected_refusal(c);
                    return refusal && refusal->is_of_single_ranks() &&
                           std::none_of(refusal->mistakes.begin(), refusal->mistakes.end(),
                                        [](const auto& of_rank) { return of_rank.empty(); });
                  }},
                 {"ranks disagree", 0.3,
                  [](const Differing& c) {
                    const auto refusal = expected_refusal(c);
                    return refusal && !refusal->is_of_single_ranks();
                  }},
                 {"a rank cannot take part", 0.1,
                  [](const Differing& c) {
                    const auto refusal = expected_refusal(c);
                    return refusal && refusal->is_of_single_ranks();
                  }},
                 {"nothing that must be equal differs", 0.05,
                  [](const Differing& c) { return !expected_refusal(c); }}},
  });
}

}  // namespace lockstep::scenarios::replicas_different_models_are_refused

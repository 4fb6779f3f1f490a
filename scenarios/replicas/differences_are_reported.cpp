// Every rank that compares the replicas receives an error that says which element differs first,
// its values, and who has which; and nothing where no bit differs.
#include "harness/cases/generators.h"
#include "harness/history/history.h"
#include "harness/rank/rank_context.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/replicas/changed.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::replicas_differences_are_reported {
namespace {

using namespace replicas;

constexpr char kSentence[] = "sentence", kError[] = "error", kLater[] = "error later";

void record(RankContext& here, const char* phase, const std::string& sentence) {
  here.enter(0, phase);
  record_sentence(here, kSentence, sentence);
}

std::string in_forward(int forward) {
  return "in forward " + std::to_string(forward) + ": ";
}

// The option's forwards end with the first that throws; each is named by its number.
std::string error_by_option(Replica& replica, int from, int to) {
  for (int forward = from; forward < to; ++forward) {
    const auto sentence = error_of([&] { replica.backward(replica.forward(torch::ones({1}))); });
    if (!sentence.empty()) return in_forward(forward) + sentence;
  }
  return "";
}

void program(const Changed& c, RankContext& here) {
  const auto model = std::make_shared<Numbered>(c);
  const bool by_option = c.by == CheckedBy::option;
  WrapOptions options;
  options.further.check_replicas_every = by_option ? c.period : 0;
  options.broadcast_buffers = !by_option || c.buffers;
  const auto replica = wrap(here, model, options);
  const auto look = [&](const char* phase, int from, int to) {
    record(here, phase, by_option ? error_by_option(*replica, from, to) : error_of([&] {
             replica->check_equal(c.buffers);
           }));
  };
  look(kError, 0, c.forwards);
  if (changing_ranks(c).contains(here.rank())) model->change(c);
  look(kLater, c.forwards, c.forwards + c.period);
}

std::string sentence_of(const History& h, const char* phase, int rank) {
  return sentence_in(h.row({0, phase}, kSentence), rank);
}

// True if there is something to tell: some ranks and not all have changed what is looked at. A
// forward broadcasts buffers before it looks.
bool differs(const Changed& c) {
  const auto ranks = changing_ranks(c);
  if (ranks.empty() || static_cast<int>(ranks.size()) == c.world.size) return false;
  const bool is_buffer = parts_of(c)[changed_part(c)].kind == NumberedKind::buffer;
  return !is_buffer || (c.by == CheckedBy::function && c.buffers);
}

std::string place_of(const Changed& c) {
  const auto part = parts_of(c)[changed_part(c)];
  std::string index;
  auto left = changed_element(c);
  for (size_t d = part.shape.size(); d-- > 0;) {
    index = std::to_string(left % part.shape[d]) + (index.empty() ? "" : ", ") + index;
    left /= part.shape[d];
  }
  return (index.empty() ? "" : "element [" + index + "] of ") + word_of(part.kind) + " '" +
         (c.by == CheckedBy::function ? "module." : "") + "t" + std::to_string(changed_part(c)) +
         "'";
}

std::string who_has(const std::vector<int>& ranks) {
  return named(ranks) + (ranks.size() == 1 ? " has " : " have ");
}

// The value in the sentence's words; nothing where only its bits are known.
std::string value_text(const Changed& c, bool is_changed) {
  const auto part = parts_of(c)[changed_part(c)];
  const auto how = how_of(c);
  if (part.dtype == Dtype::bool_) return is_changed ? "false" : "true";
  const auto number = changed_element(c) + 1;
  if (is_changed && (how == ChangeKind::nan || how == ChangeKind::last_bit)) return "";
  const auto now = !is_changed ? number : how == ChangeKind::sign ? -number : number + 64;
  if (part.dtype != Dtype::complex64) return std::to_string(now);
  const bool has_minus_zero = is_changed && how == ChangeKind::sign;
  return "(" + std::to_string(now) + (has_minus_zero ? ", -0)" : ", 0)");
}

Findings who_looks_receives_the_error(const Changed& c, const History& h) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (const auto sentence = sentence_of(h, kError, rank); !sentence.empty())
      return {{"Replicas that are equal must be found equal", "error_without_a_cause", kError,
               "rank " + std::to_string(rank) + " received '" + sentence + "'"}};
  std::string expected;
  std::vector<std::string> halves;
  if (differs(c)) {
    std::vector<int> kept, changed;
    for (int rank = 0; rank < c.world.size; ++rank)
      (changing_ranks(c).contains(rank) ? changed : kept).push_back(rank);
    halves = {who_has(kept) + value_text(c, false), who_has(changed) + value_text(c, true)};
    if (changed.front() < kept.front()) std::swap(halves[0], halves[1]);
    const auto forward = c.forwards + (c.period - 1 - c.forwards % c.period);
    expected = (c.by == CheckedBy::option ? in_forward(forward) : "") + "ranks disagree on " +
               place_of(c) + ": ";
  }
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto sentence = sentence_of(h, kLater, rank);
    const bool begins = sentence.starts_with(expected + (halves.empty() ? "" : halves[0]));
    const bool has_both =
        halves.empty() ? sentence.empty() : sentence.find("; " + halves[1]) != std::string::npos;
    if (begins && has_both) continue;
    if (!halves.empty() && !sentence.empty() && !is_in_our_words(h.row({0, kLater}, kSentence)))
      continue;
    const auto* const pattern = halves.empty()     ? "error_without_a_cause"
                                : sentence.empty() ? "error_does_not_arrive"
                                                   : "names_another_difference";
    return {
        {"Every rank must receive an error that says which element differs, and what each rank has",
         pattern, kLater,
         "rank " + std::to_string(rank) + " received " +
             (sentence.empty() ? "nothing" : "'" + sentence + "'") + ", expected " +
             (halves.empty() ? "no error" : "'" + expected + halves[0] + "; " + halves[1] + "'")}};
  }
  return {};
}

Findings all_ranks_receive_one_error(const Changed&, const History& h) {
  const auto row = h.row({0, kLater}, kSentence);
  return is_in_our_words(row) ? all_received_one_sentence(row) : Findings();
}

std::vector<Changed> every_small_one() {
  const std::vector<NumberedTensor> parts{
      {.dtype = Dtype::float64, .shape = {2, 3}, .transposed = true},
      {.kind = NumberedKind::buffer, .dtype = Dtype::int64}};
  std::vector<Changed> all;
  for (const int world : {2, 3})
    for (const auto& ranks : std::vector<std::vector<int>>{{}, {0}, {1}, {0, 1}})
      for (const int part : {0, 1, 2})
        for (const auto by : {CheckedBy::function, CheckedBy::option})
          all.push_back({.world = {.size = world},
                         .parts = parts,
                         .part = part,
                         .element = 3,
                         .how = part == 1 ? ChangeKind::last_bit : ChangeKind::another,
                         .ranks = ranks,
                         .by = by,
                         .period = 2});
  // Ranks differ in a buffer, and nobody looks at it.
  for (const int world : {2, 3})
    for (const auto by : {CheckedBy::function, CheckedBy::option})
      all.push_back({.world = {.size = world},
                     .parts = parts,
                     .part = 2,
                     .ranks = {1},
                     .by = by,
                     .buffers = false});
  return all;
}

rc::Gen<Changed> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto part = gen::build<NumberedTensor>(
      set(&NumberedTensor::kind,
          element(NumberedKind::parameter, NumberedKind::parameter, NumberedKind::buffer)),
      set(&NumberedTensor::dtype,
          element(Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16, Dtype::complex64,
                  Dtype::int64, Dtype::uint8, Dtype::bool_)),
      set(&NumberedTensor::shape, gen::lists(0, 3, element(1, 2, 3, 4))),
      set(&NumberedTensor::transposed));
  return gen::build<Changed>(
      set(&Changed::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Changed::parts, gen::lists(0, 6, part)), set(&Changed::part, inRange(0, 60)),
      set(&Changed::element, inRange(0, 900)),
      set(&Changed::how,
          element(ChangeKind::another, ChangeKind::sign, ChangeKind::last_bit, ChangeKind::nan)),
      set(&Changed::ranks, rc::gen::weightedOneOf<std::vector<int>>(
                               {{1, rc::gen::just(std::vector<int>{})},
                                {6, gen::lists(1, 3, element(0, 1, 2, 3, 4))}})),
      set(&Changed::by, element(CheckedBy::function, CheckedBy::option)),
      set(&Changed::period, element(1, 2, 3, 4)), set(&Changed::forwards, element(0, 1, 2, 3, 4)),
      set(&Changed::buffers));
}

}  // namespace

Scenario differences_are_reported() {
  return scenario<Changed>({
      .name = "replicas.differences_are_reported",
      .former_name = "replicas.differences_are_told",
      .claim = "check_replicas_equal tells every rank which element differs first, its values, and "
               "who has which.",
      .in_full = "check_replicas_equal, and every n-th forward where check_replicas_every says so, "
                 "tell every rank which element of which tensor differs first, its values, and who "
                 "has which; bits count, strides do not; and say nothing where all bits are equal.",
      .exactness = "same sentence",
      .source = "docs/semantics.md 1.4",
      .not_covered = "optimizers, shapes that differ, joins",
      .usual_mistake = "an update that one rank leaves out, or makes alone.",
      .tags = {"replicas"},
      .must_catch = {"replicas_compared_in_memory_order", "replicas_compared_one_forward_late",
                     "replicas_compared_with_buffers_unasked",
                     "replicas_compared_with_their_own_buffers", "tails_of_replicas_left_out"},
      .draws = 80,
      .start = {.world = {.size = 2}, .ranks = {1}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {who_looks_receives_the_error, all_ranks_receive_one_error},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Changed>},
                 {"replicas that differ", 0.3, differs},
                 {"replicas that are equal", 0.1, [](const Changed& c) { return !differs(c); }},
                 {"the option", 0.25, [](const Changed& c) { return c.by == CheckedBy::option; }},
                 {"the last bit alone", 0.05,
                  [](const Changed& c) { return differs(c) && how_of(c) == ChangeKind::last_bit; }},
                 {"a buffer that changed", 0.05,
                  [](const Changed& c) {
                    return parts_of(c)[changed_part(c)].kind == NumberedKind::buffer &&
                           !c.ranks.empty();
                  }}},
  });
}

}  // namespace lockstep::scenarios::replicas_differences_are_reported

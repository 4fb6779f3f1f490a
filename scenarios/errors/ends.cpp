#include "scenarios/errors/ends.h"

#include "harness/verdict/trace.h"

namespace lockstep::scenarios::errors {

namespace {

std::string who(int rank) {
  return "rank " + std::to_string(rank);
}

// The words that a peer's error has about this rank.
std::string word_about(const Erring& c, int rank) {
  const bool is_forward = c.mistake.kind == MistakeKind::throw_in_forward;
  return who(rank) + " reported: " + (is_forward ? "forward threw: " : "") + own_word(c, rank);
}

// Its peers may have issued all that a late rank needs for its step.
ExpectedError error_of_late_ranks(const Erring& c, int step, int rank) {
  std::vector<int> late;
  for (int each = 0; each < c.world.size; ++each)
    if (errs(c, step, each)) late.push_back(each);
  return {.kind = errs(c, step, rank) ? ExpectedError::Kind::perhaps : ExpectedError::Kind::peers,
          .words = {"no answer from a peer within the timeout of " + std::to_string(kTimeoutMs) +
                    " ms (the option timeout); these ranks do not wait as this one does: " +
                    ranges_text(late)}};
}

std::string forwards_before(const Erring& c, int step, int rank) {
  return std::to_string(step + (errs(c, step, rank) ? 2 : 1));
}

}  // namespace

std::string own_word(const Erring& c, int rank) {
  const auto p = mistaken_parameter(c);
  const auto kind = c.mistake.kind;
  if (kind == MistakeKind::throw_in_forward || kind == MistakeKind::throw_in_backward ||
      kind == MistakeKind::reported)
    return planted(p, rank);
  if (kind == MistakeKind::forward_in_backward) return "the backward pass before this is not over";
  if (kind == MistakeKind::registered)
    return "parameter 'late' was registered after the module was wrapped";
  if (kind == MistakeKind::registered_buffer)
    return "buffer 'late_part.late' was registered after the module was wrapped; wrap it again";
  if (kind == MistakeKind::registered_module)
    return "parameter 'late_part.late' was registered after the module was wrapped";
  if (kind == MistakeKind::buffer_converted)
    return "buffer 0 was 'count' Long[1] when the module was wrapped and is 'count' Int[1] now";
  if (kind == MistakeKind::hook_loaded) return "communication hook 'power_sgd, ";
  if (kind == MistakeKind::unhooked)
    return "remove_autograd_hooks() was called; wrap the module again";
  const bool is_strided = kind == MistakeKind::strided;
  return "parameter '" + name_of(p) + "' was " +
         word_of(is_strided ? MistakeKind::converted : kind);
}

std::string state_of_its_number(const Erring& c, int step, int rank) {
  const auto count = forwards_before(c, step, rank);
  return "its pass comes after " + count + " synchronised forward" + (count == "1" ? "" : "s");
}

ExpectedError error_at_the_end(const Erring& c, int step, int rank) {
  if (c.mistake.kind == MistakeKind::late) return error_of_late_ranks(c, step, rank);
  if (errs(c, step, rank)) {
    if (c.mistake.kind == MistakeKind::reported) return {};
    return {.kind = ExpectedError::Kind::own, .words = {own_word(c, rank)}};
  }
  ExpectedError expected{.kind = ExpectedError::Kind::peers};
  for (int other = 0; other < c.world.size; ++other)
    if (errs(c, step, other)) {
      expected.words.push_back(word_about(c, other));
      if (c.mistake.kind == MistakeKind::forward_in_backward)
        expected.instead = who(other) + ": an exception was thrown in the backward pass";
    }
  return expected;
}

ExpectedError late_error(const Erring& c, int rank, const std::vector<std::string>& states,
                         bool rank_has_thrown) {
  ExpectedError expected{.kind = ExpectedError::Kind::reported};
  for (int other = 0; other < c.world.size; ++other) {
    const auto& state = states[static_cast<size_t>(other)];
    if (state.empty()) continue;
    if (other != rank)
      expected.words.push_back(who(other) + " reported: " + state);
    else
      expected.words.push_back(rank_has_thrown ? own_word(c, rank)
                                               : "a backward pass could not be averaged: " + state);
  }
  return expected;
}

ExpectedError error_of_a_late_number(const Erring& c, int step, int rank) {
  return {.kind = ExpectedError::Kind::reported,
          .words = {"; this rank's came after " + forwards_before(c, step, rank) + " "}};
}

ExpectedError error_out_of_step(const Erring& c, int step, int rank) {
  const int left_out = c.mistake.step % c.steps;
  if (step + 1 < c.steps || errs(c, left_out, rank)) return {};
  ExpectedError expected{.kind = ExpectedError::Kind::peers};
  for (int other = 0; other < c.world.size; ++other)
    if (errs(c, left_out, other))
      expected.words.push_back(who(other) + " ended after " + std::to_string(c.steps - 1) +
                               " synchronised backward" + (c.steps == 2 ? "," : "s,"));
  return expected;
}

}  // namespace lockstep::scenarios::errors

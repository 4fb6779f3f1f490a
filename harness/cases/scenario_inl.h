// Bodies of scenario.h.
#pragma once

#include "harness/cases/scenario.h"

#include <memory>

namespace lockstep {

template <CaseType C>
Scenario scenario(Spec<C> given) {
  const auto spec = std::make_shared<const Spec<C>>(std::move(given));
  const auto defaults = std::make_shared<const Json>(to_json(C{}));
  const auto with_own = [spec, defaults](Json value) {
    return Case{spec->name, with_defaults(spec->unused, std::move(value), *defaults)};
  };
  const auto erased = [with_own](const C& c) { return with_own(to_json(c)); };
  const auto typed = [](const Case& c) { return from_json<C>(c.value, "case"); };
  Scenario out;
  out.name = spec->name;
  out.former_name = spec->former_name;
  out.claim = spec->claim;
  out.in_full = spec->in_full;
  out.exactness = spec->exactness;
  out.source = spec->source;
  out.not_covered = spec->not_covered;
  out.usual_mistake = spec->usual_mistake;
  out.tags = spec->tags;
  out.must_catch = spec->must_catch;
  out.draws = spec->draws;
  out.judges_endings = spec->judges_endings;
  out.judges_each_step = spec->judges_each_step;
  if (spec->cause)
    out.cause = [spec, typed](const Case& c, std::string_view pattern) {
      return spec->cause(typed(c), pattern);
    };
  out.every = [spec, erased] {
    std::vector<Case> all;
    if (spec->every)
      for (const auto& c : spec->every()) all.push_back(erased(c));
    return all;
  };
  out.draw = [spec, erased](uint64_t seed, int size) {
    return erased(spec->cases(rc::Random(seed), size).value());
  };
  out.unused = spec->unused;
  out.parse = [spec, defaults](const Json& value) {
    Case c{spec->name, to_json(from_json<C>(value, "case"))};
    require_defaults(spec->unused, c.value, *defaults, spec->name);
    return c;
  };
  out.unmet_precondition = [spec, typed](const Case& c) {
    const C value = typed(c);
    auto why = unmet_precondition(value);
    return why.empty() && spec->precondition ? spec->precondition(value) : why;
  };
  out.smaller = [with_own, typed](const Case& c) {
    std::vector<Case> all;
    for (auto& value : smaller_by_field(typed(c))) all.push_back(with_own(std::move(value)));
    return all;
  };
  for (auto& leaf : leaves_of<C>())
    if (!is_among(spec->unused, leaf.path)) out.leaves.push_back(std::move(leaf));
  for (const auto& label : spec->labels) out.required_shares.push_back({label.name, label.share});
  out.labels = [spec, typed](const Case& c) {
    uint64_t labels = 0;
    if (spec->labels.empty()) return labels;
    const C value = typed(c);
    for (size_t i = 0; i < spec->labels.size(); ++i)
      labels |= static_cast<uint64_t>(spec->labels[i].holds(value)) << i;
    return labels;
  };
  out.smallest = [spec, erased] { return erased(spec->start); };
  out.program = [spec, typed](const Case& c, RankContext& here) { spec->program(typed(c), here); };
  out.checks = [spec, typed](const Case& c, const History& history) {
    Findings all;
    std::optional<NotSeen> not_seen;
    const C value = typed(c);
    for (const auto check : spec->checks) try {
        all += check(value, history);
      } catch (const NotSeen& error) {
        if (!not_seen) not_seen = error;
      }
    // A finding of one check explains more than another check's missing observation.
    if (all.empty() && not_seen) throw *not_seen;
    return all;
  };
  return out;
}

}  // namespace lockstep

// Forms in which run.json alone has values.
#pragma once

#include "harness/base/forms.h"
#include "harness/cases/groups.h"
#include "reports/style.h"

#include <charconv>

namespace lockstep {

inline constexpr int64_t kCasesMost = 100'000'000;

struct SeedOrNull {
  using Stored = std::optional<std::string>;
  static Stored stored(const std::optional<uint64_t>& seed) {
    return seed ? Stored(reports::seed_text(*seed)) : Stored();
  }
  static std::string take(Stored text, std::optional<uint64_t>& seed) {
    if (!text) return {};
    seed = 0;
    if (text->starts_with("0x"))
      std::from_chars(text->data() + 2, text->data() + text->size(), *seed, 16);
    return reports::seed_text(*seed) == *text ? "" : "a seed in hexadecimal, or null";
  }
};

struct ShardOrNull {
  using Stored = std::optional<std::string>;
  static Stored stored(const std::optional<RunShard>& shard) {
    return shard ? Stored(shard_text(*shard)) : Stored();
  }
  static std::string take(Stored text, std::optional<RunShard>& shard) {
    if (text) shard = shard_of(*text);
    const bool fits = !text || (shard && shard_text(*shard) == *text);
    return fits ? "" : "a shard such as \"2/5\", or null";
  }
};

struct CanaryInWords {
  using Stored = std::string;
  static Stored stored(Run::Canary canary) { return std::string(name_of(canary)); }
  static std::string take(Stored text, Run::Canary& canary) {
    using Canary = Run::Canary;
    for (auto one : {Canary::not_run, Canary::failed, Canary::passed, Canary::inconclusive})
      if (name_of(canary = one) == text) return {};
    return "one of not run, failed, passed, inconclusive";
  }
};

struct AsNumbers {
  using Stored = std::string;
  static Stored stored(const NumberSet& numbers) { return numbers.text(); }
  static std::string take(Stored text, NumberSet& numbers) {
    const auto parsed = NumberSet::parsed(text, kCasesMost);
    if (!parsed) return "numbers of cases up to " + std::to_string(kCasesMost);
    numbers = *parsed;
    return {};
  }
};

struct ValueOfCase {
  using Stored = Json;
  static Stored stored(const Case& c) { return c.value; }
  static std::string take(Stored json, Case& c) {
    const auto world = json.is_object() ? json.value("world", Json()) : Json();
    const auto size = world.is_object() ? world.value("size", Json()) : Json();
    c.value = std::move(json);
    const bool is_size = size.is_number_integer() && size >= 1 && size <= kWorldMost;
    return is_size ? "" : "a case whose world has a size from 1 to " + std::to_string(kWorldMost);
  }
};

}  // namespace lockstep

// The fields of verdicts and findings in run.json.
#pragma once

#include "harness/base/table_fields.h"
#include "harness/verdict/verdict.h"
#include "reports/findings/text.h"

namespace lockstep {

// A place is a value, or null where only words name it.
struct PlaceInRecord {
  int step = 0;
  std::string phase;
  std::string record;
  std::vector<int64_t> index;
};
struct WordsOfPlace {
  using Stored = std::string;
  static Stored stored(const FindingPlace& place) { return one_line(place.text()); }
  static std::string take(Stored text, FindingPlace& place) {
    place = FindingPlace(std::move(text));
    return {};
  }
};
struct PlaceOrNull {
  using Stored = std::optional<PlaceInRecord>;
  static Stored stored(const FindingPlace& place) {
    if (!place.at) return {};
    return PlaceInRecord{place.at->step, place.at->phase, place.record, place.index};
  }
  static std::string take(Stored stored, FindingPlace& place) {
    if (stored) place = FindingPlace({stored->step, stored->phase}, stored->record, stored->index);
    return {};
  }
};

template <>
struct FieldsOf<PlaceInRecord> {
  using T = PlaceInRecord;
  static constexpr auto fields() {
    return std::tuple{field("step", &T::step, at_least(0)), line("phase", &T::phase),
                      line("record", &T::record), field("index", &T::index, at_least(0))};
  }
};

template <>
struct FieldsOf<Finding> {
  using T = Finding;
  static constexpr auto fields() {
    return std::tuple{line("rule", &T::rule),
                      line("pattern", &T::pattern),
                      field<WordsOfPlace>("where", &T::where, kLine),
                      field("diagnosis", &T::diagnosis),
                      field<PlaceOrNull>("place", &T::where),
                      field("details", &T::details),
                      unless_default(line("cause", &T::cause)),
                      unless_default(line("limit", &T::limit)),
                      derived("text", [](const T& finding) { return reports::text_of(finding); })};
  }
  static std::string finish(Finding& finding) {
    keep_first_line(finding);
    return {};
  }
};

template <>
struct FieldsOf<Verdict> {
  static constexpr auto fields() {
    return std::tuple{
        field("verdict", &Verdict::kind), field("findings", &Verdict::findings),
        derived("signature", [](const Verdict& verdict) { return one_line(verdict.signature()); })};
  }
};

}  // namespace lockstep

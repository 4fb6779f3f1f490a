// Makes a Demo of typed parts. A demonstration's settings are a struct with a field list and a
// member `world`, its number of ranks.
#pragma once

#include "demos/demo.h"
#include "reports/style.h"

#include <memory>

namespace lockstep::demos {

inline constexpr char kNoMistake[] = "none";

// The case of a demonstration.
template <Fielded S>
struct Staged {
  WorldSpec world;
  S settings;
  std::string mistake = kNoMistake;
  auto operator<=>(const Staged&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Staged::world), field("settings", &Staged::settings),
                      field("mistake", &Staged::mistake)};
  }
};

template <Fielded S>
struct DemoSpec {
  std::string name, lesson, text, proof;
  std::vector<std::string> meanings;  // of the settings, in the order of their fields
  std::vector<DemoMistake> mistakes;
  Timing (*prices)(const S&) =
      nullptr;  // of virtual time; null: nothing costs any, and none is shown
  std::string (*refusal)(const S&) = nullptr;  // why settings do not fit each other; "": they do
  void (*program)(const Staged<S>&, RankContext&);
  std::vector<Findings (*)(const Staged<S>&, const History&)> checks;
  DemoStory (*show)(const Staged<S>&, const History&);
  bool shows_a_hang = false;
};

// A value as --set takes it: words without quotes.
std::string text_of(const Json& value);

// Throws FieldError for a name that none of `settings` has.
void require_setting(const std::string& demo, const std::vector<DemoSetting>& settings,
                     const std::string& name);
void require_mistake(const std::string& demo, const std::vector<DemoMistake>& mistakes,
                     const std::string& name);

// The label of the row that comes first: what one process on all the data has.
reports::Label reference_label();

// "4 7 3 0 6".
std::string spaced(const std::vector<int64_t>& values);
std::string spaced(const std::vector<double>& values);

// Why setting `name` cannot be this rank: "root 5 is no rank of a world of 4"; empty where it can.
std::string why_no_rank(const std::string& name, int rank, int world);

// "rank 2 alone", "all 4 ranks", "2 of 4 ranks".
std::string who(const std::vector<int>& ranks, int world);

template <Fielded S>
Demo demo(DemoSpec<S> given) {
  const auto spec = std::make_shared<const DemoSpec<S>>(std::move(given));
  const auto typed = [](const Case& c) { return from_json<Staged<S>>(c.value, "case"); };
  Demo out{.name = spec->name,
           .lesson = spec->lesson,
           .text = spec->text,
           .proof = spec->proof,
           .mistakes = spec->mistakes,
           .in_virtual_time = spec->prices != nullptr,
           .shows_a_hang = spec->shows_a_hang};
  const auto defaults = to_json(S{});
  const auto leaves = leaves_of<S>();
  for (size_t i = 0; i < leaves.size(); ++i)
    out.settings.push_back({leaves[i], spec->meanings.at(i), text_of(defaults.at(leaves[i].path))});
  out.scenario.name = "demo." + spec->name;
  out.scenario.claim = spec->lesson;
  out.scenario.program = [spec, typed](const Case& c, RankContext& here) {
    spec->program(typed(c), here);
  };
  out.scenario.checks = [spec, typed](const Case& c, const History& history) {
    Findings all;
    for (const auto check : spec->checks) all += check(typed(c), history);
    return all;
  };
  out.case_of = [spec, name = out.scenario.name, settings = out.settings](
                    const Demo::Values& values, const std::string& mistake) {
    Json json = to_json(S{});
    for (const auto& [setting, text] : values) {
      require_setting(spec->name, settings, setting);
      json = with_value(std::move(json), setting, text);
    }
    Staged<S> staged{.settings = from_json<S>(json, spec->name)};
    if (spec->refusal)
      if (const auto why = spec->refusal(staged.settings); !why.empty())
        throw FieldError(spec->name + ": " + why);
    staged.world.size = staged.settings.world;
    if (spec->prices) staged.world.timing = spec->prices(staged.settings);
    if (!mistake.empty()) {
      require_mistake(spec->name, spec->mistakes, mistake);
      staged.mistake = mistake;
    }
    return Case{name, to_json(staged)};
  };
  out.values_of = [](const Case& c) {
    Demo::Values values;
    for (const auto& [name, value] : c.value.at("settings").items())
      values.emplace_back(name, text_of(value));
    return values;
  };
  out.show = [spec, typed](const Case& c, const History& history) {
    return spec->show(typed(c), history);
  };
  return out;
}

}  // namespace lockstep::demos

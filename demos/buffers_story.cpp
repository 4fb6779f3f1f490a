#include "demos/buffers.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::demos::buffers {

namespace {

using reports::number_text;

// The recorded values: by moment, then by rank or replica.
using Recorded = std::vector<std::vector<double>>;

Recorded recorded_in(const BuffersCase& c, const History& h, const Way& way) {
  Recorded out;
  for (size_t m = 0; m < kMoments.size() * static_cast<size_t>(c.settings.forwards); ++m) {
    const auto row = h.row(moment_of(m), way.name);
    if (way.name == kParallel.name) {
      out.push_back(as_doubles(row.by_rank.front()));
      continue;
    }
    out.emplace_back();
    for (const auto& value : row.by_rank) out.back().push_back(as_doubles(value).at(0));
  }
  return out;
}

double spread_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

std::string caption_of(const Recorded& recorded) {
  double at_beginning = 0, after = 0;
  for (size_t m = 0; m < recorded.size(); ++m)
    (m % kMoments.size() == 0 ? at_beginning : after) =
        std::max(m % kMoments.size() == 0 ? at_beginning : after, spread_of(recorded[m]));
  const auto text_of_value = [](double spread) {
    return spread == 0 ? "are equal" : "differ by up to " + number_text(spread);
  };
  return "as forwards begin the values " + text_of_value(at_beginning) + "; after them they " +
         text_of_value(after);
}

reports::Label label_of(const Way& way, size_t rank) {
  auto label = reports::rank_label(static_cast<int>(rank));
  if (way.name == kParallel.name) label.text = "replica " + std::to_string(rank);
  return label;
}

reports::Picture grid_of(const BuffersCase& c, const Way& way, const Recorded& recorded) {
  reports::Grid grid{
      .column_axis = "running_mean", .columns = {}, .rows = {{reference_label(), {}}}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({label_of(way, static_cast<size_t>(rank)), {}});
  for (int f = 0; f < c.settings.forwards; ++f)
    grid.columns.push_back({"forward " + std::to_string(f), kMoments});
  const auto reference = reference_of(c);
  for (size_t m = 0; m < recorded.size(); ++m) {
    grid.rows[0].cells.push_back({number_text(reference[m])});
    for (size_t rank = 0; rank + 1 < grid.rows.size(); ++rank)
      grid.rows[rank + 1].cells.push_back(
          {rank < recorded[m].size() ? number_text(recorded[m][rank]) : ""});
  }
  return {.title = way.title, .caption = caption_of(recorded), .body = std::move(grid)};
}

reports::Picture lines_of(const BuffersCase& c, const Way& way, const Recorded& recorded,
                          const reports::Scale& range) {
  reports::Lines lines{.column_axis = "moment",
                       .value_axis = "running_mean",
                       .columns = {},
                       .series = {{reference_label(), reference_of(c)}},
                       .range = range};
  for (size_t m = 0; m < recorded.size(); ++m) {
    const auto [forward, phase] = moment_of(m);
    lines.columns.push_back(phase + " " + std::to_string(forward));
  }
  for (size_t rank = 0; rank < static_cast<size_t>(c.world.size); ++rank) {
    lines.series.push_back({label_of(way, rank), {}});
    for (const auto& moment : recorded)
      lines.series.back().values.push_back(rank < moment.size() ? moment[rank] : NAN);
  }
  return {.title = std::string(way.title) + ", from moment to moment",
          .caption = caption_of(recorded),
          .body = std::move(lines)};
}

}  // namespace

DemoStory show(const BuffersCase& c, const History& h) {
  std::map<std::string_view, Recorded> recorded;
  reports::Scale range;
  for (const auto& way : {kOn, kOff, kSync, kParallel}) {
    recorded[way.name] = recorded_in(c, h, way);
    for (const auto& moment : recorded[way.name])
      for (const double value : moment) range = range.with(value);
  }
  const auto odd = static_cast<size_t>(c.world.size / 2 * 2 - 1);  // the last that is fed ones
  const auto last = [&](const Way& way) { return number_text(recorded[way.name].back().at(odd)); };
  const auto rank = std::to_string(odd);
  DemoStory story;
  story.finding = "Rank " + rank + " ends with running_mean " + last(kOn) +
                  " with the broadcast, " + last(kOff) + " without it and " + last(kSync) +
                  " with SyncBatchNorm; one process has " + number_text(reference_of(c).back()) +
                  ", DataParallel keeps " + number_text(recorded[kParallel.name].back().at(0)) +
                  ".";
  for (const auto& way : {kOn, kOff, kSync, kParallel}) {
    story.pictures.push_back(grid_of(c, way, recorded[way.name]));
    story.page_pictures.push_back(lines_of(c, way, recorded[way.name], range));
    story.pictures.back().is_beside = story.page_pictures.back().is_beside =
        story.pictures.size() > 1;
  }
  if (c.settings.forwards > 1)
    story.question = {
        "With broadcast_buffers on, rank " + rank + " is fed " + std::string("ones") +
            " and has running_mean " + number_text(recorded[kOn.name][2].at(odd)) +
            " after its first forward, rank 0 has " + number_text(recorded[kOn.name][2].front()) +
            ". With what does rank " + rank + " begin its second forward?",
        number_text(recorded[kOn.name][3].at(odd)),
        "before each forward rank 0's buffers replace every other rank's, so that what a rank "
        "added in the last forward is lost"};
  return story;
}

}  // namespace lockstep::demos::buffers

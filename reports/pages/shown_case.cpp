#include "reports/pages/shown_case.h"

#include "harness/verdict/trace.h"
#include "reports/pictures/communication.h"
#include "reports/pictures/observed.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

void add(std::vector<Picture>& pictures, std::optional<Picture> one) {
  if (one && pictures.size() < kPicturesOfACase) pictures.push_back(std::move(*one));
}

// The row-major number of the element of a place in the ranks' value.
size_t element_of(const FindingPlace& place, const History& history) {
  for (const auto& rank : history.ranks())
    for (const auto& event : rank.events) {
      const auto* seen = std::get_if<Observation>(&event.what);
      if (!seen || event.at != place.at || seen->name != place.record) continue;
      if (seen->value.shape.size() != place.index.size()) return 0;
      int64_t flat = 0;
      for (size_t i = 0; i < place.index.size(); ++i)
        flat = flat * seen->value.shape[i] + place.index[i];
      return static_cast<size_t>(std::max<int64_t>(0, flat));
    }
  return 0;
}

bool ended_badly(Result::Kind kind) {
  return kind == Result::Kind::hang || kind == Result::Kind::crash;
}

}  // namespace

std::vector<Picture> pictures_of_failure(const Result& result, const History* history) {
  std::vector<Picture> pictures;
  if (history && (ended_badly(result.kind) || first_divergence_point(*history)))
    add(pictures, ladder_picture(*history));
  if (result.worst.findings.empty()) return pictures;
  const auto& finding = result.worst.findings.front();
  add(pictures, divergence_picture(finding));
  if (!history) return pictures;
  if (const auto& place = finding.where; place.at) {
    add(pictures, series_picture(*history, place.record, element_of(place, *history)));
    add(pictures, index_picture(*history));
    add(pictures, held_picture(*history, *place.at, Differences::marked));
  }
  if (ended_badly(result.kind)) add(pictures, communication_picture(*history));
  if (pictures.empty()) {
    add(pictures, index_picture(*history));
    if (const auto at = last_moment(*history))
      add(pictures, held_picture(*history, *at, Differences::marked));
  }
  return pictures;
}

std::vector<Picture> pictures_of_pass(const History& history) {
  std::vector<Picture> pictures;
  add(pictures, index_picture(history));
  const bool has_samples = !pictures.empty();
  add(pictures, bucket_picture(history));
  add(pictures, series_picture(history, changing_record(history), 0));
  if (const auto at = last_moment(history); at && !has_samples && pictures.size() < 2)
    add(pictures, held_picture(history, *at, Differences::left_alone));
  add(pictures, communication_picture(history));
  if (pictures.empty()) add(pictures, ladder_picture(history));
  return pictures;
}

}  // namespace lockstep::reports

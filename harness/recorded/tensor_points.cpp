#include "harness/recorded/tensor_points.h"

namespace lockstep::recorded {

namespace {

std::optional<TensorPoint::Stage> stage_of(const std::string& role, const std::string& phase) {
  using Stage = TensorPoint::Stage;
  if (role == role::kParameters && phase == phase::kConstruction) return Stage::construction;
  if (role == role::kParameters && phase == phase::kUpdate) return Stage::parameters;
  if (role == role::kBuffers) return Stage::buffers;
  if (role == role::kGradients || role == role::kTaken) return Stage::gradients;
  return {};
}

}  // namespace

Moment TensorPoint::moment() const {
  static constexpr const char* kPhases[]{"construction", "forward", "backward", "update"};
  return {step, kPhases[static_cast<int>(stage)]};
}

std::string TensorPoint::what() const {
  return (stage == Stage::buffers     ? "buffers of "
          : stage == Stage::gradients ? "gradients of "
                                      : "parameters of ") +
         of;
}

std::map<TensorPoint, const Digests*> tensor_points(const Rank& rank,
                                                    const std::set<std::string>& by_update) {
  std::map<TensorPoint, const Digests*> points;
  std::map<std::string, std::string> kinds;  // of the last backward, by model
  for (const auto& record : rank.records) {
    if (const auto* fact = fact_in(record, fact::kBackward))
      kinds[fact->text("model")] = fact->text("kind");
    const auto* digests = std::get_if<Digests>(&record.what);
    if (!digests) continue;
    const auto stage = stage_of(digests->list->role, record.at.phase);
    if (!stage) continue;
    const TensorPoint point{record.at.step, *stage, digests->list->of};
    const bool is_by_hand = kinds[point.of] == "by hand" || is_optimizer(point.of);
    const bool is_as_taken = is_by_hand || by_update.contains(point.of);
    if (digests->list->role == role::kTaken && !is_as_taken) continue;
    // Averaged by hand, they are the ranks' average in the update that takes them.
    const bool is_averaged =
        is_by_hand ? record.at.phase == phase::kUpdate : kinds[point.of] == "synchronised";
    const bool is_local = *stage == TensorPoint::Stage::gradients && rank.world > 1 && !is_averaged;
    if (is_local || digests->elements.empty()) {
      if (*stage == TensorPoint::Stage::gradients) points.erase(point);
    } else if (*stage == TensorPoint::Stage::buffers) {
      points.try_emplace(point, digests);
    } else {
      points[point] = digests;
    }
  }
  return points;
}

}  // namespace lockstep::recorded

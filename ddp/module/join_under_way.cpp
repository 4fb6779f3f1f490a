#include "ddp/module/join_under_way.h"

#include <algorithm>

namespace lockstep {

void JoinUnderWay::listen(const std::function<void(std::size_t)>& tell) {
  for (std::size_t i = 0; i < joinables.size(); ++i) joinables[i]->tell_ = [tell, i] { tell(i); };
}

void JoinUnderWay::end(const std::string& why) {
  ended = why;
  for (const auto& each : joinables) each->tell_ = nullptr;
}

std::vector<std::string> JoinUnderWay::names() const {
  std::vector<std::string> names;
  for (const auto& each : joinables) names.push_back(each->name());
  return names;
}

std::optional<std::string> JoinUnderWay::validation_error_to(
    const std::vector<std::shared_ptr<Joinable>>& joinables) {
  for (auto each = joinables.begin(); each != joinables.end(); ++each) {
    const std::string place =
        "joinable " + std::to_string(each - joinables.begin()) + " of join() ";
    if (!*each) return place + "is null";
    const std::string named = place + "('" + (*each)->name() + "') ";
    if (std::find(joinables.begin(), each, *each) != each) return named + "is there twice";
    if ((*each)->tell_) return named + "is in a join that is under way; finish() that one first";
  }
  return std::nullopt;
}

}  // namespace lockstep

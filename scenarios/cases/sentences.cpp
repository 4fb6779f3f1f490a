#include "scenarios/cases/sentences.h"

#include "harness/worlds/subject.h"

#include <c10/util/Exception.h>

namespace lockstep::scenarios {

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Unsupported&) {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace lockstep::scenarios

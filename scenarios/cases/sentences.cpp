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

}  // namespace lockstep::scenarios

#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace lockstep::testing {

// Captures c10's warnings while it lives.
class Heard : public c10::WarningHandler {
 public:
  Heard() : guard_(this) {}
  void process(const c10::Warning& warning) override { all_ += warning.msg() + "|"; }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace lockstep::testing

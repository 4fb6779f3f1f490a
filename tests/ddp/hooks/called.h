#pragma once

#include "ddp/communication_hook.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace lockstep::testing {

// A communication hook that is a function.
class Called : public CommunicationHook {
 public:
  using Run = std::function<HookResult(GradBucket&, HookCollectives&)>;
  explicit Called(Run run) : run_(std::move(run)) {}
  std::string description() const override { return "called"; }
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    return run_(bucket, collectives);
  }

 private:
  Run run_;
};

// One of the library's own, with nothing around it.
using Make = std::shared_ptr<CommunicationHook> (*)();

inline std::shared_ptr<CommunicationHook> called(Called::Run run) {
  return std::make_shared<Called>(std::move(run));
}

}  // namespace lockstep::testing

#pragma once

#include "ddp/communication_hook.h"
#include "ddp/reducer/bucket.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

struct ReducerOptions {
  std::vector<std::int64_t> bytes_caps;
  bool first_plan_has_caps = false;
  bool find_unused_parameters = false;  // off where the graph is static
  bool static_graph = false;
  bool skip_unused_buckets = false;
  // A pass that threw is reported to peers at once, and nothing is reduced until restart(): peers
  // may wait in the middle of their passes. Note [Layers that train over ranks].
  bool ends_with_an_exception = false;
  BucketOptions bucket;
  std::shared_ptr<CommunicationHook> hook;  // null: the all-reduce
};

}  // namespace lockstep

// The names that recorders give to what they record. docs/protocol.md, section 5, says of each when
// it is written and what it holds; others may come, and are kept.
#pragma once

#include <string_view>

namespace lockstep::recorded {

// The phases of a moment.
namespace phase {
inline constexpr std::string_view kConstruction = "construction", kData = "data",
                                  kForward = "forward", kBackward = "backward", kUpdate = "update",
                                  kJoin = "join";
}  // namespace phase

// The roles of a list of tensors.
namespace role {
inline constexpr std::string_view kParameters = "parameters", kFrozen = "frozen",
                                  kBuffers = "buffers", kOwnBuffers = "own buffers",
                                  kWritten = "written",  // buffers, before a broadcast
    kGradients = "gradients",                            // as a backward leaves them
    kTaken = "taken",                                    // gradients, as an update takes them
    kState = "state",                                    // of an optimizer
    kAverage = "average",                                // of weights
    kStatistics = "statistics",                          // buffers that update_bn() left
    kEvaluated = "evaluated",                            // parameters, in an evaluation
    kRandom = "random",                                  // states of random generators
    kBegun = "begun", kEnded = "ended";                  // without an optimizer
}  // namespace role

// The names of facts that do not begin with an object's, such as "model 0".
namespace fact {
inline constexpr std::string_view kProcessGroup = "process group", kBackward = "backward",
                                  kTerms = "terms", kBatch = "batch", kInputs = "inputs",
                                  kPart = "part", kCall = "call", kExchange = "exchange",
                                  kClip = "clip", kUnwaited = "unwaited", kSkipped = "skipped",
                                  kOwnGradients = "own gradients",
                                  kAveragedGradients = "averaged gradients", kShards = "shards",
                                  kReplaced = "replaced", kMetric = "metric",
                                  kMultiplied = "multiplied", kWorkers = "workers",
                                  kWorkerStreams = "worker streams",
                                  kChangedByHand = "changed by hand",
                                  kTrainedWithinAStep = "trained within a step",
                                  kNotRecorded = "not recorded";
}  // namespace fact

inline bool is_model(std::string_view name) {
  return name.starts_with("model ");
}

inline bool is_optimizer(std::string_view name) {
  return name.starts_with("optimizer ");
}

// A copy of a model: a teacher, or an average of weights.
inline bool is_copy(std::string_view name) {
  return name.starts_with("copy ");
}

inline bool is_loader(std::string_view name) {
  return name.starts_with("loader ");
}

inline bool is_sampler(std::string_view name) {
  return name.starts_with("sampler ");
}

}  // namespace lockstep::recorded

// Samplers without a process group, and what they refuse.
#pragma once

#include "ddp/distributed_sampler.h"
#include "ddp/errors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {

using Indices = std::vector<std::size_t>;

inline DistributedSampler sampler_of(std::size_t size, std::int64_t ranks, std::int64_t rank,
                                     DistributedSamplerOptions options = {}) {
  options.num_replicas = ranks;
  options.rank = rank;
  return {size, options};
}

inline torch::serialize::InputArchive reopened(torch::serialize::OutputArchive& out) {
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  return in;
}

inline void expect_refusal(const std::function<void()>& misuse, const std::string& given,
                           const std::string& expected) {
  try {
    misuse();
    ADD_FAILURE() << "accepted " << given;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(given), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

}  // namespace lockstep

#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// The program of one rank. Its return value is its report; an exception's class and sentence are
// the report of a rank that throws ("DisagreementError: ...").
using RankProgram = std::function<std::string(const Group& group)>;

// Runs `program` in `world_size` forked processes that meet in a file store in a folder of their
// own, on Gloo over loopback, and returns the reports in rank order. A rank that dies, or is still
// there at the deadline, has the report "died: ...". The calling process must not have run a
// backward pass or a second thread before: a child forked after that may hang.
std::vector<std::string> run_world(
    int world_size, const RankProgram& program,
    std::chrono::milliseconds group_timeout = std::chrono::seconds(20));

// The reports of run_world where every rank reports the same.
std::vector<std::string> same(int world_size, const std::string& report);

// The numbers of a tensor on the CPU, in row order, exact: "1 -2.5 3".
std::string numbers(const at::Tensor& tensor);

}  // namespace lockstep::testing

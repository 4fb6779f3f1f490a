// On the simulated accelerator, whose judge says what is ordered and what is not.
#include "harness/rank/late_results.h"

#include "tests/accelerator/worlds.h"

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::all_reduce;
using testing::numbers;
using testing::on_device;
using testing::run_devices;
using testing::same;
using testing::with_hazards;

c10::Stream current_of(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

Call in_place(const at::Tensor& tensor) {
  return {.op = "allreduce", .inputs = {tensor}, .outputs = {tensor}};
}

// An all-reduce of `tensor` whose result is late, in that a value is written to `delay`, on the
// stream that is to stand still.
c10::intrusive_ptr<c10d::Work> late_sum(c10d::ProcessGroup& group, LateResults& late,
                                        const at::Tensor& tensor) {
  const auto detour = late.detour(in_place(tensor), 10ms);
  return all_reduce(group, tensor);
}

LateResults writing_to(const at::Tensor& delay) {
  return LateResults([delay](const c10::Stream& stream, std::chrono::milliseconds time) {
    const c10::StreamGuard guard(stream);
    delay.fill_(static_cast<double>(time.count()));
  });
}

TEST(LateResults, ARightProgramSeesNoDifference) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor delay = on_device(at::zeros({1}));
    LateResults late = writing_to(delay);
    std::string report;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor tensor = on_device(at::ones({2})) * (1 + step);
      const auto before = current_of(tensor);
      const auto work = late_sum(group, late, tensor);
      report += before == current_of(tensor) ? "" : "another stream is current; ";
      work->wait();
      report += numbers(tensor.cpu()) + ", ";
    }
    return with_hazards(report + numbers(delay.cpu()));
  });
  EXPECT_EQ(reports, same(2, "2 2, 4 4, 6 6, 10"));
}

// Read before the wait, what stands still is a hazard with the caller's stream; after it, it is
// not: so the collective is behind it, and the caller was not.
TEST(LateResults, TheCallersStreamIsNotHeldUpUnlessItWaits) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor delay = on_device(at::zeros({1}));
    LateResults late = writing_to(delay);
    const at::Tensor tensor = on_device(at::ones({2}));
    const auto work = late_sum(group, late, tensor);
    const at::Tensor early = delay.add(1);
    const auto found = hazards().size();
    clear_hazards();
    work->wait();
    const at::Tensor then = delay.add(1);
    return with_hazards(std::to_string(found) + " then");
  });
  EXPECT_EQ(reports, same(2, "1 then"));
}

// Each of them would have the caller's stream go on before its own collective.
TEST(LateResults, WhatHasNoResultOnAStreamAsideIsLeftAlone) {
  const auto reports = run_devices(1, [](c10d::ProcessGroup&) {
    const at::Tensor tensor = on_device(at::ones({2}));
    int held_up = 0;
    LateResults late([&](const c10::Stream&, std::chrono::milliseconds) { ++held_up; });
    auto on_own_stream = in_place(tensor);
    on_own_stream.is_async = false;
    std::string report;
    for (const auto& call : {on_own_stream, in_place(at::ones({2})), Call{.op = "barrier"}})
      report += late.detour(call, 10ms) ? "detour " : "none ";
    report += late.detour(in_place(tensor), 0ms) ? "detour " : "none ";
    report += LateResults(nullptr).detour(in_place(tensor), 10ms) ? "detour " : "none ";
    report += late.detour(in_place(tensor), 10ms) ? "detour " : "none ";
    return report + std::to_string(held_up);
  });
  EXPECT_EQ(reports, same(1, "none none none none none detour 1"));
}

}  // namespace
}  // namespace lockstep

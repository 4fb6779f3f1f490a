#pragma once

#include "tests/ddp/forked_world.h"

#include <c10/core/Stream.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::testing {

// run_world() with two simulated devices in each process, and a backend for them beside Gloo.
std::vector<std::string> run_on_devices(
    int world_size, const RankProgram& program,
    std::chrono::milliseconds group_timeout = std::chrono::seconds(20));

// The hazards that this process forgot to order: empty, where all is well.
std::string forgotten();

// The waits that have held up its host since `mark`, a host_wait_count().
std::string waits_since(std::size_t mark);

void hand_over(const c10::Stream& from, const c10::Stream& to);
c10::Stream default_stream();
c10::Stream side_stream();

}  // namespace lockstep::testing

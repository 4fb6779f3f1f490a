#pragma once

#include "harness/accelerator/accelerator.h"
#include "harness/accelerator/backend.h"
#include "tests/ddp/forked_world.h"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

// The report of a rank where all is well: its numbers, and a line for each hazard.
inline std::string with_hazards(std::string report) {
  for (const std::string& each : hazard_sentences()) report += "\n" + each;
  return report;
}

inline at::Tensor on_device(const at::Tensor& tensor, c10::DeviceIndex index = 0) {
  return tensor.to(accelerator_device(index));
}

inline c10::intrusive_ptr<c10d::Work> all_reduce(c10d::ProcessGroup& group,
                                                 const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return group.allreduce(tensors);
}

inline c10::intrusive_ptr<c10d::Work> broadcast(c10d::ProcessGroup& group,
                                                const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return group.broadcast(tensors);
}

// A group with both backends, for a program of ranks.
using Program = std::function<std::string(c10d::ProcessGroup& group)>;

inline std::vector<std::string> run_devices(int world_size, const Program& program,
                                            Misorder misorder = Misorder::kNothing) {
  use_simulated_accelerator(2);
  return run_world(world_size, [&](const Group& group) {
    add_accelerator_backend(*group, misorder);
    return program(*group);
  });
}

}  // namespace lockstep::testing

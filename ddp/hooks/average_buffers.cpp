#include "ddp/buffer_hook.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

class AverageBuffers : public BufferHook {
 public:
  std::string description() const override { return "average_buffers"; }

  void run(const std::vector<NamedBuffer>& buffers, int /*source*/,
           HookCollectives& collectives) override {
    const at::NoGradGuard no_grad;
    std::vector<std::pair<at::Tensor, StartedCollective>> sums;
    for (const auto& [name, buffer] : buffers) {
      if (!buffer.is_floating_point() || buffer.numel() == 0) continue;
      const at::Tensor sum = (buffer.detach() * (1.0 / collectives.world_size()))
                                 .contiguous(at::MemoryFormat::Contiguous);
      sums.emplace_back(sum, collectives.all_reduce(sum));
    }
    auto sum = sums.begin();
    for (const auto& [name, buffer] : buffers) {
      if (!buffer.is_floating_point() || buffer.numel() == 0) continue;
      sum->second.wait();
      buffer.copy_(sum->first);
      ++sum;
    }
  }
};

}  // namespace

std::shared_ptr<BufferHook> average_buffers_hook() {
  return std::make_shared<AverageBuffers>();
}

}  // namespace lockstep

// SyncBatchNorm on a simulated device, whose kernels have the names and meaning of CUDA's.
#include "ddp/sync_batch_norm.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>

namespace lockstep {
namespace {

using testing::forgotten;
using testing::Group;
using testing::run_on_devices;
using testing::same;
using testing::waits_since;

// The device's kernels compute in float: the CPU's, in double, bound them.
TEST(SyncBatchNormOnADevice, IsThatOfTheCpu) {
  for (const int world : {1, 2, 3}) {
    const auto reports = run_on_devices(world, [&](const Group& group) {
      std::string report;
      for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
        for (const std::optional<double> momentum : {std::optional<double>(0.25), {}}) {
          const auto train = [&](const at::Device& device) {
            SyncBatchNorm layer(SyncBatchNormOptions{
                .num_features = 3, .momentum = momentum, .process_group = group});
            layer->to(device);
            std::vector<at::Tensor> out;
            for (int step = 0; step < 2; ++step) {
              // Rank 1 is empty in the second step; far from zero, of unequal sizes.
              const int rank = group->getRank();
              const std::int64_t samples = step == 1 && rank == 1 ? 0 : 2 + rank;
              at::Tensor input = torch::arange(samples * 3 * 4, at::kDouble)
                                     .mul(0.5)
                                     .sin()
                                     .add(4 + rank)
                                     .view({samples, 3, 4})
                                     .to(dtype)
                                     .to(device)
                                     .requires_grad_();
              const std::size_t mark = host_wait_count();
              const at::Tensor output = layer(input);
              const at::Tensor upstream = output.detach().cos();
              output.backward(upstream);
              if (!device.is_cpu()) report += waits_since(mark);
              for (const at::Tensor& each :
                   {output.detach(), input.grad(), layer->weight.grad(), layer->bias.grad(),
                    layer->running_mean, layer->running_var, layer->num_batches_tracked}) {
                out.push_back(each.cpu().to(at::kDouble));
              }
            }
            return out;
          };
          const auto right = train(at::kCPU), seen = train(accelerator_device());
          const bool is_narrow = dtype == at::kHalf || dtype == at::kBFloat16;
          for (std::size_t i = 0; i < right.size(); ++i) {
            if (right[i].numel() == 0) continue;
            const double distance = (right[i] - seen[i]).abs().max().item<double>();
            if (distance > (is_narrow ? 0.05 : 2e-5))
              report += " " + std::to_string(i) + ": " + std::to_string(distance);
          }
        }
      }
      return report + forgotten();
    });
    EXPECT_EQ(reports, same(world, ""));
  }
}

}  // namespace
}  // namespace lockstep

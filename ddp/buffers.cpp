#include "ddp/buffers.h"

#include "ddp/errors.h"

#include <torch/torch.h>

#include <map>

namespace lockstep {

namespace {

std::vector<std::string> layout_of(const torch::nn::Module& module) {
  std::vector<std::string> lines;
  for (const auto& buffer : module.named_buffers()) {
    const at::Tensor& tensor = buffer.value();
    lines.push_back("'" + buffer.key() + "' " + c10::toString(tensor.scalar_type()) +
                    c10::str(tensor.sizes()));
  }
  return lines;
}

// The tensors of one dtype as one row of elements; what non-source ranks put in is overwritten.
at::Tensor flatten(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.detach().reshape({-1}));
  return at::cat(rows);
}

void write_back(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  // Below autograd's bookkeeping: the version counters stay as they are.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

void broadcast_chunk(Communicator& communicator, const std::vector<at::Tensor>& tensors,
                     const std::string& description) {
  const at::Tensor flat = flatten(tensors);
  // As bytes: Gloo knows neither bool nor int16 nor complex numbers.
  Operation broadcast = communicator.start_broadcast(flat.view(at::kByte), description);
  communicator.wait(broadcast);
  if (communicator.rank() != 0) write_back(flat, tensors);
}

}  // namespace

void broadcast_from_rank_zero(Communicator& communicator, const std::vector<at::Tensor>& tensors,
                              const std::string& description, std::int64_t bytes_cap) {
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) by_dtype[tensor.scalar_type()].push_back(tensor);
  }
  for (const auto& [dtype, group] : by_dtype) {
    std::vector<at::Tensor> chunk;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      chunk.push_back(group[i]);
      bytes += static_cast<std::int64_t>(group[i].nbytes());
      if (bytes < bytes_cap && i + 1 < group.size()) continue;
      broadcast_chunk(communicator, chunk, description + " (" + c10::toString(dtype) + ")");
      chunk.clear();
      bytes = 0;
    }
  }
}

BufferSync::BufferSync(std::shared_ptr<torch::nn::Module> module)
    : module_(std::move(module)), layout_(layout_of(*module_)) {}

void BufferSync::synchronise(Communicator& communicator) {
  if (layout_.empty()) return;
  const std::vector<std::string> layout = layout_of(*module_);
  for (std::size_t i = 0; i < std::max(layout.size(), layout_.size()); ++i) {
    const std::string before = i < layout_.size() ? layout_[i] : "nothing";
    const std::string now = i < layout.size() ? layout[i] : "nothing";
    if (before == now) continue;
    throw UsageError("rank " + std::to_string(communicator.rank()) + ": buffer " +
                     std::to_string(i) + " was " + before + " when the module was wrapped and is " +
                     now + " now; wrap it again");
  }
  broadcast_from_rank_zero(communicator, module_->buffers(), "broadcast of buffers");
}

}  // namespace lockstep

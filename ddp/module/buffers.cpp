#include "ddp/module/buffers.h"

#include "ddp/batch_norm.h"
#include "ddp/comm/streams.h"
#include "ddp/consistency/rank_description.h"
#include "ddp/module/registered_tensors.h"
#include "ddp/reducer/gradient_hooks.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep {

namespace {

std::vector<std::string> names_of(const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> names;
  for (const NamedTensor& each : buffers) names.push_back(each.name);
  return names;
}

std::vector<std::string> layout_of(const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : buffers) {
    lines.push_back("'" + name + "' " + c10::toString(tensor.scalar_type()) +
                    c10::str(tensor.sizes()));
  }
  return lines;
}

// Concatenates tensors of one dtype and device into one row of elements; non-source ranks' values
// are overwritten.
at::Tensor flatten(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.detach().reshape({-1}));
  return at::cat(rows);
}

// False on a device, where the host would have to wait.
bool has_the_bits_of(const at::Tensor& tensor, const at::Tensor& row) {
  return !has_streams(tensor.device()) &&
         tensor.detach().reshape({-1}).view(at::kByte).equal(row.view(at::kByte));
}

struct Kind {
  at::ScalarType dtype;
  c10::Device device;
  std::vector<at::Tensor> tensors;
};

void add_to_its_kind(std::vector<Kind>& kinds, const at::Tensor& tensor) {
  for (Kind& each : kinds) {
    if (each.dtype != tensor.scalar_type() || each.device != tensor.device()) continue;
    each.tensors.push_back(tensor);
    return;
  }
  kinds.push_back({tensor.scalar_type(), tensor.device(), {tensor}});
}

void write_back(const at::Tensor& flat, const std::vector<at::Tensor>& tensors,
                const std::set<const at::TensorImpl*>& unread) {
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor row = flat.narrow(0, offset, tensor.numel());
    offset += tensor.numel();
    if (has_the_bits_of(tensor, row)) continue;
    if (unread.contains(tensor.unsafeGetTensorImpl())) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      tensor.copy_(row.view(tensor.sizes()));
    } else {
      tensor.copy_(row.view(tensor.sizes()));
    }
  }
}

void broadcast_chunk(int source, Communicator& communicator, const std::vector<at::Tensor>& tensors,
                     const std::string& description,
                     const std::set<const at::TensorImpl*>& unread) {
  const at::Tensor flat = flatten(tensors);
  // As bytes: Gloo supports neither bool nor int16 nor complex numbers.
  Operation broadcast = communicator.start_broadcast(flat.view(at::kByte), description, source);
  communicator.wait(broadcast);
  if (communicator.rank() != source) write_back(flat, tensors, unread);
}

// The running statistics of one kind of layer, by whether it is in training mode.
template <class Norm>
void collect(torch::nn::Module& module, bool training, std::set<const at::TensorImpl*>& found) {
  const auto* const norm = dynamic_cast<Norm*>(&module);
  if (norm == nullptr || norm->is_training() != training) return;
  for (const at::Tensor& buffer : module.buffers(false)) {
    found.insert(buffer.unsafeGetTensorImpl());
  }
}

std::set<const at::TensorImpl*> statistics_of_layers(torch::nn::Module& root, bool training) {
  std::set<const at::TensorImpl*> found;
  for (const auto& each : root.modules()) {
    collect<torch::nn::BatchNorm1dImpl>(*each, training, found);
    collect<torch::nn::BatchNorm2dImpl>(*each, training, found);
    collect<torch::nn::BatchNorm3dImpl>(*each, training, found);
    collect<BatchNorm1dImpl>(*each, training, found);
    collect<BatchNorm2dImpl>(*each, training, found);
    collect<BatchNorm3dImpl>(*each, training, found);
  }
  return found;
}

}  // namespace

void broadcast_from(int source, Communicator& communicator, const std::vector<at::Tensor>& tensors,
                    const std::string& description, const DistributedDataParallelOptions& options,
                    const std::set<const at::TensorImpl*>& unread) {
  const double bytes_cap = options.broadcast_cap_mb * 1024.0 * 1024.0;
  const at::NoGradGuard no_grad;
  std::vector<Kind> kinds;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) add_to_its_kind(kinds, tensor);
  }
  // Sorted by dtype only: ranks may have different devices, kept in order of appearance.
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.dtype < b.dtype; });
  for (const auto& [dtype, device, group] : kinds) {
    std::vector<at::Tensor> chunk;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      chunk.push_back(group[i]);
      bytes += static_cast<std::int64_t>(group[i].nbytes());
      if (static_cast<double>(bytes) < bytes_cap && i + 1 < group.size()) continue;
      broadcast_chunk(source, communicator, chunk, description + " (" + c10::toString(dtype) + ")",
                      unread);
      chunk.clear();
      bytes = 0;
    }
  }
}

BufferSync::BufferSync(std::shared_ptr<torch::nn::Module> module,
                       const DistributedDataParallelOptions& options)
    : module_(std::move(module)),
      options_(options),
      names_(names_of(buffers_of(*module_, options_))),
      layout_(layout_of(buffers_of(*module_, options_))) {
  options_.process_group.reset();
}

void BufferSync::set_hook(std::shared_ptr<BufferHook> hook, BufferHookPlace place) {
  hook_ = std::move(hook);
  place_ = place;
}

std::vector<NamedBuffer> BufferSync::buffers(const Communicator& communicator) const {
  const std::vector<NamedTensor> buffers = buffers_of(*module_, options_);
  const std::string rank = "rank " + std::to_string(communicator.rank()) + ": ";
  if (const auto change = changed_buffer(names_, names_of(buffers)))
    throw ChangedBuffers(rank + *change);
  const std::vector<std::string> layout = layout_of(buffers);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] == layout_[i]) continue;
    throw ChangedBuffers(rank + "buffer " + std::to_string(i) + " was " + layout_[i] +
                         " when the module was wrapped and is " + layout[i] +
                         " now; wrap it again");
  }
  std::vector<NamedBuffer> out;
  for (const NamedTensor& each : buffers) out.push_back({each.name, each.tensor});
  return out;
}

void BufferSync::before_forward(Communicator& communicator, int source) {
  if (hook_ && place_ == BufferHookPlace::after_forward) {
    source_after_forward_ = source;
  } else if (hook_) {
    call_hook(communicator, source);
  } else {
    std::vector<at::Tensor> tensors;
    for (const NamedBuffer& each : buffers(communicator)) tensors.push_back(each.tensor);
    broadcast_from(source, communicator, tensors, "broadcast of buffers", options_,
                   unread_buffers());
  }
}

void BufferSync::after_forward(Communicator& communicator) {
  if (const auto source = std::exchange(source_after_forward_, std::nullopt))
    call_hook(communicator, *source);
}

// The hook sees the buffers and what writes to them is not hidden from autograd.
void BufferSync::call_hook(Communicator& communicator, int source) const {
  HookCollectives collectives(communicator, communicator.world_size(), "buffers");
  hook_->run(buffers(communicator), source, collectives);
}

// Note [What a graph has saved].
BufferSync::Identities BufferSync::unread_buffers() {
  Identities unread = statistics_of_layers(*module_, true);
  unread.merge(statistics_of_layers(*module_, false));
  std::erase_if(readers_, [](const Reader& each) { return each.graph.expired(); });
  for (const Reader& reader : readers_) {
    for (const at::TensorImpl* const read : reader.buffers) unread.erase(read);
  }
  return unread;
}

void BufferSync::forward_ran(const std::optional<std::vector<at::Tensor>>& outputs) {
  if (!has_any()) return;
  Reader reader{.buffers = statistics_of_layers(*module_, false), .graph = {}};
  if (reader.buffers.empty()) return;
  const auto graph = std::make_shared<const bool>(true);
  reader.graph = graph;
  if (!outputs) unseen_graph_ = graph;  // until the next forward whose outputs are not seen
  for (const at::Tensor& output : outputs.value_or(std::vector<at::Tensor>())) {
    on_gradient_of(output, [graph] {});
  }
  readers_.push_back(std::move(reader));
}

}  // namespace lockstep

#include "harness/accelerator/fallback.h"

#include "harness/accelerator/aliases.h"
#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace lockstep::accelerator {

namespace {

template <std::size_t Count>
bool is_among(const std::array<std::string_view, Count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// These accept indices on the CPU too, as on CUDA.
constexpr std::array<std::string_view, 4> kTakeIndicesOfTheCpu = {
    "index", "index_put_", "_index_put_impl_", "_unsafe_index"};

// These read shapes, not values.
constexpr std::array<std::string_view, 13> kReadNoValues = {
    "is_set_to",
    "is_same_size",
    "_nnz",
    "sparse_dim",
    "dense_dim",
    "_dimI",
    "_dimV",
    "is_coalesced",
    "_coalesced_",
    "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "sparse_resize_",
    "sparse_resize_and_clear_"};

// The output size of these depends on values, or they return a number to the host.
constexpr std::array<std::string_view, 13> kHoldUpTheHost = {"nonzero",
                                                             "masked_select",
                                                             "_unique",
                                                             "_unique2",
                                                             "unique_dim",
                                                             "unique_consecutive",
                                                             "unique_dim_consecutive",
                                                             "repeat_interleave",
                                                             "bincount",
                                                             "_coalesce",
                                                             "equal",
                                                             "_local_scalar_dense",
                                                             "argwhere"};

bool has_mask(const c10::IValue& value) {
  if (!value.isOptionalTensorList()) return false;
  const auto indices = value.toOptionalTensorVector();
  return std::any_of(indices.begin(), indices.end(), [](const std::optional<at::Tensor>& each) {
    return each && each->defined() &&
           (each->scalar_type() == at::kBool || each->scalar_type() == at::kByte);
  });
}

// One call of one operation.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DispatchKey key)
      : op_(op),
        key_(key),
        schema_(op.schema()),
        stack_(stack),
        first_(stack.size() - schema_.arguments().size()) {
    name_ = schema_.name();
    if (const auto colons = name_.rfind(':'); colons != std::string::npos)
      name_ = name_.substr(colons + 1);
  }

  void run() {
    look_at_arguments();
    TORCH_CHECK(device_, "'", name_, "' was sent to the simulated accelerator without a tensor of ",
                "it and without a device");
    require_one_device();
    TORCH_CHECK(op_.hasComputedKernelForDispatchKey(key_), "the simulated accelerator has no '",
                name_, "': LibTorch has no kernel for the CPU");
    replace_arguments();
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op_.redispatchBoxed(c10::DispatchKeySet(key_), &stack_);
    }
    aliases_.write_back();
    // Not earlier: out= arguments may have been reallocated.
    for (const at::Tensor& each : written_) add_access(accesses_, each, /*writes=*/true);
    replace_results();
    Ledger& ledger = Ledger::instance();
    const c10::Stream stream = current_stream(*device_);
    ledger.submit(stream, name_, accesses_);
    if (holds_up_the_host_) {
      ledger.host_knows(ledger.record(stream));
      ledger.host_waited(name_);
    }
  }

 private:
  template <class Visit>
  static void for_each_tensor(const c10::IValue& value, const Visit& visit) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& each : value.toTensorVector()) visit(each);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
        if (each) visit(*each);
      }
    }
  }

  void look_at_arguments() {
    const bool reads_values = !is_among(kReadNoValues, name_);
    holds_up_the_host_ = is_among(kHoldUpTheHost, name_);
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::IValue& value = stack_[first_ + i];
      const c10::AliasInfo* const alias = schema_.arguments()[i].alias_info();
      const bool writes = alias != nullptr && alias->isWrite();
      const bool is_viewed = alias != nullptr && !writes;
      if (value.isDevice() && value.toDevice().is_privateuseone()) {
        const c10::DeviceIndex index = value.toDevice().index();
        device_ = index < 0 ? current_stream(-1).device_index() : index;
      }
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        tensors_.push_back(tensor);
        if (!tensor.device().is_privateuseone()) return;
        if (!device_) device_ = tensor.get_device();
        if (!reads_values || is_viewed) return;
        if (writes) written_.push_back(tensor);
        if (!writes) add_access(accesses_, tensor, /*writes=*/false);
      });
      if (is_among(kTakeIndicesOfTheCpu, name_) && has_mask(value)) holds_up_the_host_ = true;
    }
  }

  void require_one_device() const {
    const bool takes_indices = is_among(kTakeIndicesOfTheCpu, name_);
    const c10::Device device(c10::DeviceType::PrivateUse1, *device_);
    for (const at::Tensor& each : tensors_) {
      if (each.device() == device) continue;
      if (each.device().is_cpu() && (each.dim() == 0 || takes_indices)) continue;
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two ",
                  "devices, ", device, " and ", each.device(), "! (in '", name_, "')");
    }
  }

  void replace_arguments() {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      c10::IValue& value = stack_[first_ + i];
      if (value.isTensor()) {
        value = aliases_.of(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& each : value.toTensorVector()) list.push_back(aliases_.of(each));
        value = std::move(list);
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
          list.push_back(each ? std::make_optional(aliases_.of(*each)) : std::nullopt);
        value = std::move(list);
      } else if (value.isDevice()) {
        value = c10::Device(at::kCPU);
      }
    }
  }

  void replace_results() {
    const std::size_t count = schema_.returns().size();
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      c10::IValue& value = stack_[i];
      if (value.isTensor()) {
        value = on_device(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& each : value.toTensorVector()) list.push_back(on_device(each));
        value = std::move(list);
      }
    }
  }

  at::Tensor on_device(const at::Tensor& result) {
    bool is_new = false;
    at::Tensor out = aliases_.on_device(result, *device_, is_new);
    if (is_new) add_access(accesses_, out, /*writes=*/true);
    return out;
  }

  const c10::OperatorHandle& op_;
  c10::DispatchKey key_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  std::size_t first_;
  std::string name_;
  std::optional<c10::DeviceIndex> device_;
  std::vector<at::Tensor> tensors_, written_;
  std::vector<Access> accesses_;
  bool holds_up_the_host_ = false;
  Aliases aliases_;
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, *stack, c10::DispatchKey::CPU).run();
}

void run_sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, *stack, c10::DispatchKey::SparseCPU).run();
}

}  // namespace lockstep::accelerator

#include "harness/pytorch/plugin/plugin.h"

#include "harness/pytorch/plugin/optimizers.h"
#include "harness/pytorch/plugin/python.h"
#include "harness/pytorch/plugin/wrapped.h"

namespace lockstep::pytorch {

namespace {

class ByPythonSampler final : public Sharded {
 public:
  explicit ByPythonSampler(py::object sampler) : sampler_(std::move(sampler)) {}
  void set_epoch(int64_t epoch) override {
    in_python([&] { sampler_->attr("set_epoch")(epoch); });
  }
  std::vector<int64_t> draw() override {
    return in_python([&] { return sampler_->attr("draw")().cast<std::vector<int64_t>>(); });
  }

 private:
  const Kept sampler_;
};

std::unique_ptr<Sharded> shard(int64_t length, int rank, int size, const Values& options) {
  return in_python([&] {
    return std::make_unique<ByPythonSampler>(adapter("Sharded")(length, rank, size, options));
  });
}

std::string version() {
  return in_python(
      [] { return py::module_::import("torch").attr("__version__").cast<std::string>(); });
}

void* release_lock() {
  return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_lock(void* held) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(held));
}

std::string refusal_of_sync_batch_norm(const Group& group) {
  return in_python(
      [&] { return adapter("refusal_of_sync_batch_norm")(group).cast<std::string>(); });
}

void all_reduce(const at::Tensor& tensor, const std::string& operation, const Group& group) {
  in_python([&] { adapter("all_reduce")(tensor, operation, group); });
}

std::vector<std::vector<int64_t>> random_split(int64_t size, const std::vector<double>& shares,
                                               uint64_t seed) {
  return in_python([&] {
    return adapter("random_split")(size, shares, seed).cast<std::vector<std::vector<int64_t>>>();
  });
}

constexpr Plugin kPlugin{.start = start_interpreter,
                         .version = version,
                         .release_lock = release_lock,
                         .take_lock = take_lock,
                         .wrap = wrap,
                         .averaged_sgd = averaged_sgd,
                         .zero_redundancy_optimizer = zero_redundancy_optimizer,
                         .shard = shard,
                         .refusal_of_sync_batch_norm = refusal_of_sync_batch_norm,
                         .all_reduce = all_reduce,
                         .random_split = random_split};

}  // namespace

}  // namespace lockstep::pytorch

extern "C" __attribute__((visibility("default"))) const lockstep::pytorch::Plugin*
lockstep_pytorch_plugin() {
  return &lockstep::pytorch::kPlugin;
}

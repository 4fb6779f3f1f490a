#include "harness/pytorch/plugin/plugin.h"

#include "harness/pytorch/plugin/optimizers.h"
#include "harness/pytorch/plugin/python.h"
#include "harness/pytorch/plugin/wrapped.h"

#include <ATen/CPUGeneratorImpl.h>

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

class ByPythonLayer final : public Layer {
 public:
  ByPythonLayer(const std::string& file, int64_t channels, const Group& group,
                const Values& options)
      : layer_(in_python([&] { return adapter("FileLayer")(file, channels, group, options); })) {}
  NamedTensors parameters() override { return tensors("parameters"); }
  NamedTensors buffers() override { return tensors("buffers"); }
  at::Tensor forward(const at::Tensor& input, bool is_training) override {
    return in_python(
        [&] { return layer_->attr("forward")(input, is_training).cast<at::Tensor>(); });
  }

 private:
  NamedTensors tensors(const char* kind) {
    return in_python([&] { return layer_->attr(kind)().cast<NamedTensors>(); });
  }

  const LetsGo lets_go_;
  const Kept layer_;
};

std::string open_file(const std::string& file) {
  return in_python([&] { return adapter("open_file")(file).cast<std::string>(); });
}

std::string lacks(const std::string& file, const std::string& part) {
  return in_python([&] { return adapter("lacks")(file, part).cast<std::string>(); });
}

std::unique_ptr<Sharded> shard(const std::string& file, int64_t length, int rank, int size,
                               const Values& options) {
  return in_python([&] {
    return std::make_unique<ByPythonSampler>(
        file.empty() ? adapter("Sharded")(length, rank, size, options)
                     : adapter("FileSharded")(file, length, rank, size, options));
  });
}

std::unique_ptr<Layer> sync_batch_norm(const std::string& file, int64_t channels,
                                       const Group& group, const Values& options) {
  return std::make_unique<ByPythonLayer>(file, channels, group, options);
}

std::string version() {
  return in_python(
      [] { return py::module_::import("torch").attr("__version__").cast<std::string>(); });
}

// The body that run_rank() runs in this thread.
struct RunningBody {
  PyObject* body = nullptr;  // null: nothing
  int rank = 0;
};
thread_local RunningBody running;

void call_at_turn(const char* method) {
  if (running.body == nullptr) return;
  const py::gil_scoped_acquire lock;
  try {
    py::handle(running.body).attr(method)(running.rank, at::detail::getDefaultCPUGenerator());
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable(method);
  }
}

void* release_lock() {
  call_at_turn("end");
  return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_lock(void* held) {
  if (held != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(held));
  call_at_turn("begin");
}

void run_rank(void* body, int rank, const Group& group) {
  struct Turns {
    ~Turns() {
      call_at_turn("end");
      running = {};
    }
  };
  in_python([&] {
    running = {static_cast<PyObject*>(body), rank};
    const Turns turns;
    call_at_turn("begin");
    py::handle(running.body).attr("run")(rank, group);
  });
  in_python([] { adapter("leave")(); });
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
                         .run_rank = run_rank,
                         .open = open_file,
                         .lacks = lacks,
                         .wrap = wrap,
                         .averaged_sgd = averaged_sgd,
                         .zero_redundancy_optimizer = zero_redundancy_optimizer,
                         .shard = shard,
                         .sync_batch_norm = sync_batch_norm,
                         .refusal_of_sync_batch_norm = refusal_of_sync_batch_norm,
                         .all_reduce = all_reduce,
                         .random_split = random_split};

}  // namespace

}  // namespace lockstep::pytorch

extern "C" __attribute__((visibility("default"))) const lockstep::pytorch::Plugin*
lockstep_pytorch_plugin() {
  return &lockstep::pytorch::kPlugin;
}

extern "C" __attribute__((visibility("default"))) const char* lockstep_pytorch_plugin_version() {
  return LOCKSTEP_PLUGIN_VERSION;
}

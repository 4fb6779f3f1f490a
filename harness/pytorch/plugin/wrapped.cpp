// A model of the harness under torch.nn.parallel.DistributedDataParallel.
#include "harness/pytorch/plugin/wrapped.h"

#include "harness/pytorch/plugin/optimizers.h"
#include "harness/pytorch/plugin/python.h"

#include <algorithm>

namespace lockstep::pytorch {

namespace {

py::list listed(const NamedTensors& tensors) {
  py::list out;
  for (const auto& [name, tensor] : tensors) out.append(py::make_tuple(name, tensor));
  return out;
}

bool are_same(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.is_same(other.second);
  });
}

// The model's forward, for Python.
py::object callback(const Model& model) {
  return py::cpp_function(
      [forward = model.forward](const at::Tensor& input, const std::string& shape) {
        std::exception_ptr thrown;
        {
          const py::gil_scoped_release others_may;
          try {
            return forward(input, shape);
          } catch (...) {
            thrown = std::current_exception();
          }
        }
        try {
          std::rethrow_exception(thrown);
        } catch (...) {
          raise_current_exception();
        }
      });
}

// A context manager that was entered.
class Entered {
 public:
  explicit Entered(const py::object& manager) : manager_(manager) { manager_->attr("__enter__")(); }

  // Throws what leaving it raises.
  void leave() {
    if (std::exchange(has_left_, true)) return;
    const py::none none;
    manager_->attr("__exit__")(none, none, none);
  }

  // After `thrown`, which Python takes for an error of its own.
  void leave_after(const std::exception& thrown) {
    if (std::exchange(has_left_, true)) return;
    const auto type = py::module_::import("builtins").attr("RuntimeError");
    manager_->attr("__exit__")(type, type(thrown.what()), py::none());
  }

  ~Entered() {
    const py::gil_scoped_acquire lock;
    try {
      leave();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("leaving a context");
    }
  }

 private:
  const Kept manager_;
  bool has_left_ = false;
};

class ByPython final : public Wrapped {
 public:
  ByPython(const Model& model, const Group& group, const WrapValues& values)
      : model_(model), buffers_(model.buffers()), is_of_file_(!values.file.empty()) {
    wrapped_ = in_python([&] {
      py::dict options;
      options["keywords"] = values.keywords;
      options["ignored"] = values.ignored;
      options["delayed"] = values.delayed;
      options["delayed_until"] = values.delayed_until;
      options["hook"] = values.hook;
      const auto call = callback(model);
      const auto parameters = listed(model.parameters()), buffers = listed(buffers_);
      options["sparse"] = model.sparse;
      return std::make_unique<Kept>(
          is_of_file_
              ? adapter("FileWrapped")(values.file, call, parameters, buffers, group, options)
              : adapter("Wrapped")(call, parameters, buffers, group, options));
    });
  }

  std::vector<at::Tensor> forward(const at::Tensor& input, const std::string& shape) override {
    return in_python([&] {
      if (auto now = model_.buffers(); !are_same(now, buffers_)) {
        buffers_ = std::move(now);
        own().attr("set_buffers")(listed(buffers_));
      }
      return own()
          .attr("forward")(input, shape, model_.is_training())
          .cast<std::vector<at::Tensor>>();
    });
  }

  void backward(const at::Tensor& loss) override {
    try {
      loss.backward();
    } catch (python_error& error) {
      in_python([&] {
        PyErr_Clear();
        error.restore();
        throw py::error_already_set();
      });
    } catch (py::error_already_set& error) {  // of a communication hook
      const py::gil_scoped_acquire lock;
      rethrow(error);
    }
    if (is_of_file_) in_python([&] { own().attr("after_backward")(); });
  }

  std::shared_ptr<void> no_sync() override {
    return in_python([&] { return std::make_shared<Entered>(own().attr("no_sync")()); });
  }

  void join(const std::string& kind, const std::function<void()>& steps,
            ZeroRedundancyOptimizer* optimizer) override {
    auto joined = in_python([&] {
      const py::object also = optimizer == nullptr ? py::none() : object_of(*optimizer);
      return std::make_unique<Entered>(own().attr("join")(kind, also));
    });
    try {
      steps();
    } catch (const std::exception& error) {
      in_python([&] { joined->leave_after(error); });
      throw;
    }
    in_python([&] { joined->leave(); });
  }

  void update_process_group(const Group& group) override {
    in_python([&] { own().attr("update_process_group")(group); });
    has_layout_ = false;
  }

  void finish() override {
    in_python([&] { own().attr("finish")(); });
  }

  at::Tensor left_out(const at::Tensor& parameter) override {
    return in_python([&] {
      const py::object kept = own().attr("left_out")(parameter);
      return kept.is_none() ? at::Tensor() : kept.cast<at::Tensor>();
    });
  }

  std::vector<Bucket> buckets() override {
    return in_python([&] {
      const bool rebuilt = own().attr("has_rebuilt")().cast<bool>();
      if (std::exchange(has_layout_, true) && rebuilt == is_rebuilt_) return layout_;
      is_rebuilt_ = rebuilt;
      layout_.clear();
      for (const auto& bucket : own().attr("layout")()) {
        const auto pair = bucket.cast<std::pair<int64_t, std::vector<std::string>>>();
        layout_.push_back({.elements = pair.first, .parameters = pair.second});
      }
      return layout_;
    });
  }

 private:
  const py::object& own() const { return **wrapped_; }

  const LetsGo lets_go_;
  const Model model_;
  NamedTensors buffers_;
  const bool is_of_file_;
  std::unique_ptr<Kept> wrapped_;
  std::vector<Bucket> layout_;
  bool has_layout_ = false, is_rebuilt_ = false;
};

}  // namespace

std::unique_ptr<Wrapped> wrap(const Model& model, const Group& group, const WrapValues& values) {
  return std::make_unique<ByPython>(model, group, values);
}

}  // namespace lockstep::pytorch

#include "harness/pytorch/plugin/optimizers.h"

namespace lockstep::pytorch {

namespace {

// An object of lockstep_optimizers.py.
class Optimizer {
 public:
  template <class... Arguments>
  explicit Optimizer(const char* name, const Arguments&... arguments)
      : object_(in_python([&] { return std::make_unique<Kept>(adapter(name)(arguments...)); })) {}
  template <class Result = void, class... Arguments>
  Result call(const char* method, const Arguments&... arguments) const {
    return in_python([&] {
      const py::object result = (*object_)->attr(method)(arguments...);
      if constexpr (!std::is_void_v<Result>) return result.template cast<Result>();
    });
  }
  const py::object& operator*() const { return **object_; }

 private:
  const LetsGo lets_go_;
  const std::unique_ptr<Kept> object_;
};

py::dict dictionary_of(const ParamGroup& group) {
  py::dict out;
  for (const auto& [name, value] : group.options) out[name.c_str()] = value;
  out["params"] = group.parameters;
  return out;
}

class ByPythonsAverager final : public AveragedSgd {
 public:
  ByPythonsAverager(const std::vector<at::Tensor>& parameters, const Group& group,
                    const Values& options)
      : own_("AveragedSgd", parameters, group, options) {}
  void step() override { own_.call("step"); }
  std::string save() override { return own_.call<std::string>("save"); }
  void load(const std::string& saved) override {
    in_python([&] { (*own_).attr("load")(py::bytes(saved)); });
  }

 private:
  const Optimizer own_;
};

class ByPythonsZero final : public ZeroRedundancyOptimizer {
 public:
  ByPythonsZero(const std::string& optimizer, const std::vector<py::dict>& groups,
                const Group& group)
      : own_("Zero", optimizer, groups, group) {}
  void step() override { own_.call("step"); }
  void add_group(const ParamGroup& group) override {
    in_python([&] { (*own_).attr("add_group")(dictionary_of(group)); });
  }
  void set_learning_rate(size_t group, double rate) override {
    own_.call("set_learning_rate", group, rate);
  }
  std::string save(int to) override { return own_.call<std::string>("save", to); }
  void load(const std::string& saved) override {
    in_python([&] { (*own_).attr("load")(py::bytes(saved)); });
  }
  int64_t elements_of_state() override { return own_.call<int64_t>("elements_of_state"); }
  const py::object& own() const { return *own_; }

 private:
  const Optimizer own_;
};

}  // namespace

std::unique_ptr<AveragedSgd> averaged_sgd(const std::vector<at::Tensor>& parameters,
                                          const Group& group, const Values& options) {
  return std::make_unique<ByPythonsAverager>(parameters, group, options);
}

std::unique_ptr<ZeroRedundancyOptimizer> zero_redundancy_optimizer(
    const std::string& optimizer, const std::vector<ParamGroup>& groups, const Group& group) {
  return in_python([&] {
    std::vector<py::dict> dictionaries;
    for (const auto& each : groups) dictionaries.push_back(dictionary_of(each));
    return std::make_unique<ByPythonsZero>(optimizer, dictionaries, group);
  });
}

const py::object& object_of(const ZeroRedundancyOptimizer& optimizer) {
  return dynamic_cast<const ByPythonsZero&>(optimizer).own();
}

}  // namespace lockstep::pytorch

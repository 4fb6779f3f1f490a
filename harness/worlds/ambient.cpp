#include "harness/worlds/ambient.h"

#include "harness/cases/tier.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

// "NAME=value", in the process's own order.
std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** entry = environ; entry && *entry; ++entry) all.emplace_back(*entry);
  return all;
}

std::map<std::string, std::string> by_name(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> all;
  for (const auto& text : environment) {
    const auto sign = text.find('=');
    if (sign != std::string::npos) all[text.substr(0, sign)] = text.substr(sign + 1);
  }
  return all;
}

// A handle: copies are the same generator.
at::Generator default_generator() {
  return at::detail::getDefaultCPUGenerator();
}

std::string on_off(bool value) {
  return value ? "on" : "off";
}

std::string changed(const std::string& what, const std::string& before, const std::string& after) {
  return what + " was " + before + " and is " + after;
}

}  // namespace

Ambient Ambient::capture() {
  Ambient now;
  now.generator_ = default_generator().get_state();
  now.grad_mode_ = at::GradMode::is_enabled();
  now.default_dtype_ = at::get_default_dtype();
  now.intra_op_threads_ = at::get_num_threads();
  now.inter_op_threads_ = static_cast<int>(at::get_num_interop_threads());
  now.environment_ = environment();
  std::fegetenv(&now.floats_);
  return now;
}

std::vector<std::string> Ambient::differences(const Ambient& now) const {
  std::vector<std::string> out;
  if (!at::equal(generator_, now.generator_)) out.push_back("the default generator has moved");
  if (grad_mode_ != now.grad_mode_)
    out.push_back(changed("grad mode", on_off(grad_mode_), on_off(now.grad_mode_)));
  if (default_dtype_ != now.default_dtype_)
    out.push_back(changed("the default dtype", std::string(default_dtype_.name()),
                          std::string(now.default_dtype_.name())));
  for (auto& lasting : lasting_differences(now)) out.push_back(std::move(lasting));
  return out;
}

std::vector<std::string> Ambient::lasting_differences(const Ambient& now) const {
  std::vector<std::string> out;
  const auto count = [&](const std::string& what, int before, int after) {
    if (before != after)
      out.push_back(changed(what, std::to_string(before), std::to_string(after)));
  };
  count("the number of intra-op threads", intra_op_threads_, now.intra_op_threads_);
  count("the number of inter-op threads", inter_op_threads_, now.inter_op_threads_);
  if (environment_ == now.environment_) return out;
  const auto before = by_name(environment_), after = by_name(now.environment_);
  for (const auto& [name, value] : before)
    if (!after.contains(name))
      out.push_back("the environment has lost " + name);
    else if (after.at(name) != value)
      out.push_back(changed(name, "'" + value + "'", "'" + after.at(name) + "'"));
  for (const auto& [name, value] : after)
    if (!before.contains(name)) out.push_back("the environment has gained " + name);
  return out;
}

void Ambient::restore() const {
  default_generator().set_state(generator_);
  at::GradMode::set_enabled(grad_mode_);
  at::set_default_dtype(default_dtype_);
  std::fesetenv(&floats_);
  if (at::get_num_threads() != intra_op_threads_) at::set_num_threads(intra_op_threads_);
  const auto now = environment();
  if (now == environment_) return;
  const auto before = by_name(environment_);
  for (const auto& [name, value] : by_name(now))
    if (!before.contains(name)) unsetenv(name.c_str());
  for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
}

RankAmbient::RankAmbient(const std::map<std::string, std::string>& environment)
    : generator_(default_generator().clone()), default_dtype_(at::get_default_dtype()) {
  const auto is_own = [&](const std::string& text) {
    return std::any_of(environment.begin(), environment.end(), [&](const auto& own) {
      return text.starts_with(own.first) && text[own.first.size()] == '=';
    });
  };
  for (auto& text : lockstep::environment())
    if (!is_own(text)) texts_.push_back(std::move(text));
  for (const auto& [name, value] : environment) texts_.push_back(name + "=" + value);
  for (auto& text : texts_) entries_.push_back(text.data());
  entries_.push_back(nullptr);
}

// Note [Environments that take turns]
// setenv keeps the list it made last and reuses its memory for the next one, even if `environ` was
// set to another list meanwhile. So a list of setenv's is not valid beyond its turn: each rank's,
// and the process's own, is copied.
void RankAmbient::swap() {
  static std::vector<char*> process;
  const auto entries = [] {
    std::vector<char*> all;
    for (char** entry = environ; entry && *entry; ++entry) all.push_back(*entry);
    all.push_back(nullptr);
    return all;
  };
  if (is_running_) {
    entries_ = entries();
    environ = process.data();
  } else {
    if (environ != process.data()) process = entries();
    environ = entries_.data();
  }
  is_running_ = !is_running_;
  // The default generator is a handle that is not const itself, whatever its getter says.
  std::swap(const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator()), generator_);
  const auto dtype = at::get_default_dtype();
  if (dtype != default_dtype_) at::set_default_dtype(std::exchange(default_dtype_, dtype));
}

// Not torch::manual_seed, which also looks for devices.
void warm_up_for_forks() {
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  const torch::NoGradGuard no_grad;
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::ReLU());
  const auto output = model->forward(torch::ones({2, 4}));
  torch::cat({output.flatten(), torch::zeros({1})}).div_(2).clone();
  default_generator().set_current_seed(0);
}

void require_one_intra_op_thread() {
  if (const int threads = at::get_num_threads(); threads != 1)
    throw TierError("ranks cannot be forked: LibTorch is set to " + std::to_string(threads) +
                    " intra-op threads");
}

}  // namespace lockstep

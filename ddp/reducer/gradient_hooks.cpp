#include "ddp/reducer/gradient_hooks.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

namespace lockstep {

using torch::autograd::Node;

class GradientHooks::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(Listener listener, std::size_t index) : listener_(std::move(listener)), index_(index) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    listener_(index_);
    return outputs;
  }

 private:
  const Listener listener_;
  const std::size_t index_;
};

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters, const Listener& listener) {
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters[index]));
    keys_.push_back(accumulators_[index]->add_post_hook(std::make_unique<Hook>(listener, index)));
    index_of_.emplace(accumulators_[index].get(), index);
  }
}

GradientHooks::~GradientHooks() {
  for (std::size_t i = 0; i < keys_.size(); ++i) accumulators_[i]->del_post_hook(keys_[i]);
}

bool GradientHooks::is_attached(std::size_t index, const at::Tensor& parameter) const {
  return torch::autograd::impl::try_get_grad_accumulator(parameter) == accumulators_[index];
}

std::vector<bool> GradientHooks::reachable_from(const std::vector<at::Tensor>& outputs) const {
  std::vector<bool> reachable(accumulators_.size(), false);
  std::unordered_set<Node*> seen;
  std::vector<Node*> open;
  const auto reach = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) reach(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (const auto ours = index_of_.find(node); ours != index_of_.end()) {
      reachable[ours->second] = true;
    }
    for (const auto& edge : node->next_edges()) reach(edge.function.get());
  }
  return reachable;
}

bool GradientHooks::may_be_reached_by_this_pass() const {
  const auto* const planned = torch::autograd::get_current_graph_task_exec_info();
  if (planned == nullptr || planned->empty()) return true;  // backward() without inputs
  for (const auto& [node, info] : *planned) {
    if (info.needed_ && index_of_.contains(node)) return true;
  }
  return false;
}

void on_gradient_of(const at::Tensor& output, const std::function<void()>& on_gradient) {
  if (!output.defined() || !output.grad_fn()) return;
  output.register_hook([on_gradient](const at::Tensor&) { on_gradient(); });
}

Recording begin_recording() {
  const std::uint64_t next = at::sequence_number::peek();
  return {.thread = at::RecordFunction::currentThreadId(), .first = next, .end = next};
}

bool finish_recording(Recording& recording) {
  if (recording.thread != at::RecordFunction::currentThreadId()) return false;
  recording.end = at::sequence_number::peek();
  return true;
}

bool this_pass_runs_any_of(const std::deque<Recording>& recordings) {
  const auto* const nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  if (nodes == nullptr || recordings.empty()) return false;
  std::set<std::pair<std::uint64_t, std::uint64_t>> functions;
  for (const Node* node : *nodes) functions.emplace(node->thread_id(), node->sequence_nr());
  return std::any_of(recordings.begin(), recordings.end(), [&](const Recording& each) {
    const auto function = functions.lower_bound({each.thread, each.first});
    return function != functions.end() && function->first == each.thread &&
           function->second < each.end;
  });
}

namespace {

// An exception destroys the pass, and with it the callbacks that have not run.
class EndOfPass {
 public:
  explicit EndOfPass(std::function<void(bool)> on_end) : on_end_(std::move(on_end)) {}
  ~EndOfPass() {
    if (on_end_) on_end_(true);
  }
  EndOfPass(const EndOfPass&) = delete;
  EndOfPass& operator=(const EndOfPass&) = delete;

  void has_come() { std::exchange(on_end_, nullptr)(false); }

 private:
  std::function<void(bool)> on_end_;
};

}  // namespace

void at_end_of_this_pass(std::function<void(bool thrown)> on_end) {
  const auto end = std::make_shared<EndOfPass>(std::move(on_end));
  torch::autograd::Engine::get_default_engine().queue_callback([end] { end->has_come(); });
}

bool is_on_a_thread_of_a_pass() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

bool is_inside_a_pass() {
  return torch::autograd::get_current_node() != nullptr;
}

}  // namespace lockstep

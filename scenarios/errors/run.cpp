#include "scenarios/errors/run.h"

#include "scenarios/cases/devices.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/errors/follow.h"
#include "scenarios/errors/terms.h"

#include <torch/torch.h>

#include <regex>

namespace lockstep::scenarios::errors {

namespace {

constexpr int64_t kLateMs = 10'000;
constexpr const char* kSkipped = "planted in all ranks, which skip this forward";

// The times in a sentence differ from run to run.
const std::regex& time_in_sentence() {
  static const std::regex form("failed after ([0-9]+) ms");
  return form;
}

std::string without_times(const std::string& sentence) {
  return std::regex_replace(sentence, time_in_sentence(), "failed after T ms");
}

bool is_late(const std::string& sentence) {
  std::smatch found;
  return std::regex_search(sentence, found, time_in_sentence()) && std::stoll(found[1]) >= kLateMs;
}

WrapOptions options_of(const Erring& c) {
  auto options = c.options;
  if (c.mistake.kind == MistakeKind::late) options.further.timeout_ms = kTimeoutMs;
  if (c.hook) options.hook = HookOptions();
  if (c.mistake.kind == MistakeKind::hook_loaded)
    options.hook = HookOptions{.kind = HookKind::power_sgd};
  return options;
}

// In the store, once a rank has ended its step.
std::string key_of(int step, int rank) {
  return "rank " + std::to_string(rank) + " has ended step " + std::to_string(step);
}

class Runner {
 public:
  Runner(const Erring& c, RankContext& here)
      : c_(c),
        here_(here),
        host_waits_(host_waits(here)),
        model_(std::make_shared<Terms>(c, here.rank())),
        replica_(wrap(here, model_, options_of(c))) {}

  void step(int step) {
    here_.enter(step, "training");
    std::string error;
    if (errs(step, MistakeKind::late)) let_peers_end(step);
    if (!errs(step, MistakeKind::skipped)) error = error_of([&] { train(step); });
    // An exception in backward may come while a device still executes that pass, which this awaits.
    if (!host_waits_ && !error.empty()) error_of([&] { replica_->finish(); });
    if (c_.mistake.kind == MistakeKind::late)
      here_.store()->set(key_of(step, here_.rank()), std::string("ended"));
    here_.enter(step, kAfter);
    const bool is_flag_late = reads_flag_late();
    here_.record(kFlagIsLate, std::vector<int64_t>{is_flag_late ? 1 : 0});
    here_.record(kLate, std::vector<int64_t>{is_late(error) ? 1 : 0});
    error = without_times(error);
    record_sentence(here_, kError, error);
    const auto log = replica_->log();
    record_sentence(here_, kErrorInLog, log ? without_times(log->error) : "");
    here_.record(kHasLog, std::vector<int64_t>{log.has_value()});
    record_gradients();
    if (is_step_of_end(step)) attempt(step);
    recover(step, /*pass_ended_training=*/is_flag_late && !error.empty());
  }

 private:
  void let_peers_end(int step) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < c_.world.size; ++rank)
      if (!errors::errs(c_, step, rank)) keys.push_back(key_of(step, rank));
    here_.store()->wait(keys);
  }

  bool is_step_of_mistake(int step) const { return c_.mistake.step % c_.steps == step; }
  bool is_step_of_end(int step) const { return begins_anew(c_) && is_step_of_mistake(step); }

  // Other ranks record that they attempted nothing.
  void attempt(int step) {
    for (size_t i = 0; i < c_.attempts.size(); ++i) {
      const bool attempts = host_waits_ && is_left_waiting(c_, step, here_.rank());
      const auto error = attempts ? error_of([&] { attempt(step, c_.attempts[i]); }) : "";
      record_sentence(here_, name_of_attempt(i).c_str(), without_times(error));
    }
  }

  void attempt(int step, Attempt what) {
    const auto forward = [&] { loss(step, /*pass=*/0, /*local=*/true); };
    const at::AutoGradMode with_gradients(what != Attempt::forward_without_gradients);
    if (what == Attempt::forward || what == Attempt::forward_without_gradients) forward();
    if (what == Attempt::local_forward) replica_->no_sync(forward);
    if (what == Attempt::join) replica_->join(JoinKind::throws, forward);
    if (what == Attempt::update) replica_->update_trainable_parameters();
    if (what == Attempt::check) replica_->finish();
    if (what == Attempt::bare) {
      plan_terms(step, /*local=*/true);
      const auto count = static_cast<int64_t>(parameter_count(c_));
      model_->forward(torch::ones({count}, at::kDouble).requires_grad_()).backward();
    }
  }

  bool errs(int step) const { return errors::errs(c_, step, here_.rank()); }
  bool errs(int step, MistakeKind kind) const { return errs(step) && c_.mistake.kind == kind; }
  bool registers_part() const {
    return registers(c_.mistake.kind) && c_.mistake.kind != MistakeKind::registered;
  }
  at::Tensor& mistaken() { return model_->parameter(mistaken_parameter(c_)); }

  void train(int step) {
    if (c_.updates_before && is_step_of_mistake(step)) {
      model_->register_early();
      replica_->update_trainable_parameters();
    }
    clear(step);
    for (int pass = 0; pass < c_.local_passes; ++pass)
      replica_->no_sync([&] { replica_->backward(loss(step, pass, /*local=*/true)); });
    if (c_.skips_before && is_step_of_mistake(step)) skip_a_forward();
    if (errs(step, MistakeKind::reported)) {
      replica_->report_failure(planted(mistaken_parameter(c_), here_.rank()));
      return;
    }
    prepare_mistake(step);
    if (errs(step, MistakeKind::forward_twice)) loss(step, c_.local_passes, /*local=*/false);
    replica_->backward(loss(step, c_.local_passes, /*local=*/false));
    if (!host_waits_) replica_->finish();
  }

  // No pass has begun where the forwards of all ranks threw.
  void skip_a_forward() {
    for (auto& part : model_->parts) part = {};
    model_->parts.front().in_forward = [] { throw std::runtime_error(kSkipped); };
    const auto count = static_cast<int64_t>(parameter_count(c_));
    const auto error = error_of([&] { replica_->outputs(torch::ones({count}, at::kDouble)); });
    if (error.find(kSkipped) == std::string::npos)
      throw std::runtime_error("the forward that was to throw gave: " + error);
  }

  // The last bucket carries the flag, and the host reads that of sparse gradients in the pass.
  bool reads_flag_late() const {
    const auto layout = replica_->buckets();
    return !host_waits_ && !layout.buckets.empty() &&
           layout.buckets.back().parameters.front() != kEmbeddingWeight;
  }

  void clear(int step) {
    if (c_.clears == Clears::none || c_.clears == Clears::zero)
      model_->zero_grad(/*set_to_none=*/c_.clears == Clears::none);
    if (c_.clears != Clears::own) return;
    for (size_t p = 0; p < parameter_count(c_); ++p) {
      auto& parameter = model_->parameter(p);
      const auto number = own_number(c_, step, here_.rank(), p);
      parameter.mutable_grad() = torch::full_like(parameter.detach(), number);
    }
  }

  at::Tensor loss(int step, int pass, bool local) {
    plan_terms(step, local);
    std::vector<double> factors;
    for (size_t p = 0; p < parameter_count(c_); ++p)
      factors.push_back(coefficient(c_, step, pass, here_.rank(), p));
    const auto outputs = replica_->outputs(torch::tensor(factors, at::kDouble).requires_grad_());
    auto sum = outputs.back();
    const auto& order = order_of(c_, here_.rank());
    for (const auto p : order)
      if (lack_of(c_, step, here_.rank(), p, local) != LackKind::left_out)
        sum = sum + outputs[p].sum();
    if (!local && errs(step, MistakeKind::in_the_loss)) sum = sum + surplus_of_mistaken(step);
    return sum;
  }

  at::Tensor surplus_of_mistaken(int step) {
    return mistaken().sum() * surplus(c_, step, here_.rank(), mistaken_parameter(c_));
  }

  void plan_terms(int step, bool local) {
    for (size_t p = 0; p < parameter_count(c_); ++p) {
      const auto lack = lack_of(c_, step, here_.rank(), p, local);
      model_->parts[p] = {.is_used = lack != LackKind::unused,
                          .is_cut = lack == LackKind::undefined};
    }
    if (local || !errs(step)) return;
    auto& part = model_->parts[mistaken_parameter(c_)];
    const auto throws = [text = planted(mistaken_parameter(c_), here_.rank())] {
      throw std::runtime_error(text);
    };
    part.is_sparse = c_.mistake.kind == MistakeKind::sparse;
    if (c_.mistake.kind == MistakeKind::throw_in_backward) part.in_backward = throws;
    if (c_.mistake.kind == MistakeKind::throw_in_forward) part.in_forward = throws;
    if (c_.mistake.kind == MistakeKind::twice)
      part.in_backward = [this, step] {
        const at::AutoGradMode recording(true);
        surplus_of_mistaken(step).backward();
      };
    if (c_.mistake.kind == MistakeKind::forward_in_backward)
      part.in_backward = [this] {
        const at::AutoGradMode recording(true);
        const auto count = static_cast<int64_t>(parameter_count(c_));
        replica_->outputs(torch::ones({count}, at::kDouble));
      };
  }

  void prepare_mistake(int step) {
    if (c_.mistake.kind == MistakeKind::hook_loaded && is_step_of_end(step))
      hook_before_ = replica_->save_hook();
    if (!errs(step)) return;
    const auto other = c_.dtype == Dtype::float64 ? at::kFloat : at::kDouble;
    if (c_.mistake.kind == MistakeKind::frozen) mistaken().set_requires_grad(false);
    if (c_.mistake.kind == MistakeKind::converted)
      mistaken().set_data(mistaken().detach().to(other));
    if (c_.mistake.kind == MistakeKind::strided)
      mistaken().set_data(mistaken().detach().repeat({1, 2}).narrow(1, 0, 1));
    if (c_.mistake.kind == MistakeKind::unhooked) replica_->remove_autograd_hooks();
    if (c_.mistake.kind == MistakeKind::registered) model_->register_late();
    if (registers_part())
      model_->register_late_part(c_.mistake.kind == MistakeKind::registered_buffer);
    if (c_.mistake.kind == MistakeKind::buffer_converted) model_->convert_buffer(at::kInt);
    if (c_.mistake.kind == MistakeKind::hook_loaded) replica_->load_hook(hook_before_);
    if (c_.mistake.kind == MistakeKind::dtype) {
      const auto& before = mistaken().grad();
      const auto zeros = torch::zeros_like(mistaken(), torch::requires_grad(false));
      mistaken().mutable_grad() = (before.defined() ? before : zeros).to(other);
    }
  }

  void record_gradients() {
    for (size_t p = 0; p < parameter_count(c_); ++p) {
      const auto& gradient = model_->parameter(p).grad();
      here_.record(name_of(p), gradient.defined() ? gradient.to_dense().to(at::kDouble)
                                                  : torch::empty({0}, at::kDouble));
    }
  }

  // Repairs what the caller must repair after an error.
  void recover(int step, bool pass_ended_training) {
    if (errs(step, MistakeKind::dtype) || errs(step, MistakeKind::sparse))
      mistaken().mutable_grad() = at::Tensor();
    if (!is_step_of_end(step) && !pass_ended_training && !ranks_part(c_, step)) return;
    if (errs(step, MistakeKind::frozen)) mistaken().set_requires_grad(true);
    if (c_.mistake.kind == MistakeKind::hook_loaded) replica_->load_hook(hook_before_);
    if (errs(step, MistakeKind::converted))
      mistaken().set_data(mistaken().detach().to(scalar_type(c_.dtype)));
    if (errs(step, MistakeKind::strided))
      mistaken().set_data(mistaken().detach().clone(at::MemoryFormat::Contiguous));
    if (c_.mistake.kind == MistakeKind::registered) model_->register_late();
    if (errs(step) && registers_part()) model_->drop_late_part();
    if (errs(step, MistakeKind::buffer_converted)) model_->convert_buffer(at::kLong);
    model_->zero_grad(/*set_to_none=*/true);
    here_.enter(step, "beginning anew");
    replica_->begin_anew();
  }

  const Erring& c_;
  RankContext& here_;
  const bool host_waits_;
  const std::shared_ptr<Terms> model_;
  const std::unique_ptr<Replica> replica_;
  std::string hook_before_;  // its state before the step of a mistake
};

}  // namespace

std::string name_of_attempt(size_t number) {
  return "attempt " + std::to_string(number);
}

void run(const Erring& c, RankContext& here) {
  if (!host_waits(here) && writes_into_what_travels(c))
    throw Unsupported(
        "on a device nothing orders a gradient that must not come, and is written into a bucket "
        "that travels (gradient_as_bucket_view)");
  if (leaves_peers_waiting(c)) refuse_where_the_simulation_waits(here, "a peer's error");
  Runner runner(c, here);
  for (int step = 0; step < c.steps; ++step) runner.step(step);
}

}  // namespace lockstep::scenarios::errors

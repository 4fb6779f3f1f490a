// The implementation of a Recorder that is on.
#pragma once

#include "recorder/cpp/backward_hooks.h"
#include "recorder/cpp/comparison.h"
#include "recorder/cpp/lockstep/recorder.h"
#include "recorder/cpp/rank_recording.h"

#include <map>

namespace lockstep {

class TapLog;  // harness/rank/tap.h

class Recorder::Impl {
 public:
  Impl(const c10d::ProcessGroup& group, const std::filesystem::path& folder);
  ~Impl();

  c10::intrusive_ptr<c10d::ProcessGroup> tapped(c10d::ProcessGroup& group);
  void watch(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper);
  std::shared_ptr<SamplerLog> new_sampler_log();
  at::Tensor step(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& update);
  void join_begins();
  void inputs_are_exhausted();
  void join_has_ended();

 private:
  struct Model {
    std::string name;
    std::weak_ptr<torch::nn::Module> module;  // it lives as long as without a recorder
    Wrapper wrapper;
    std::unique_ptr<BackwardHooks> hooks;
    int64_t began_ns = 0;  // the backward pass under way
    int64_t reduced_before = 0;

    std::vector<std::pair<std::string, at::Tensor>> parameters() const;  // none where it is gone
    std::vector<at::Tensor> tensors() const;                             // of these
  };
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  void digests(const std::string& of, const std::string& role, const Named& tensors);
  void record_parameters(const Model& model);
  void record_random(const Model& model);
  void forget_lost_models();
  void set_hooks(const std::shared_ptr<Model>& model);
  void backward_begins(Model& model);
  void backward_is_over(Model& model);
  void record_model(Model& model, const torch::nn::Module& module);
  void record_update(torch::optim::Optimizer& optimizer);
  std::string name_of_optimizer(const torch::optim::Optimizer& optimizer);

  const ComparisonOptions compares_;
  const std::shared_ptr<RankRecording> recording_;
  std::shared_ptr<TapLog> log_;
  std::vector<std::shared_ptr<Model>> models_;
  std::map<const torch::optim::Optimizer*, std::string> optimizers_;
  std::map<std::string, int> lists_;  // of tensors, by what describes them
  int watched_ = 0, samplers_ = 0, joins_ = 0;
  bool is_in_a_join_ = false;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace lockstep

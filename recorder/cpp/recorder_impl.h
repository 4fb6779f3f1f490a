// What a Recorder that is on does.
#pragma once

#include "harness/recorder/call_sites.h"
#include "harness/recorder/injector.h"
#include "recorder/cpp/backward_hooks.h"
#include "recorder/cpp/comparison.h"
#include "recorder/cpp/history_file.h"
#include "recorder/cpp/lockstep/recorder.h"

#include <map>

namespace lockstep {

class TapLog;  // harness/recorder/tap.h

// Where one process records, and what its tapped groups need: they may outlive the Recorder.
struct RankRecording {
  RankRecording(const std::filesystem::path& folder, int rank)
      : file(folder, rank), injector({}, rank, file), sites(file, /*is_on=*/false) {}

  void fact(const std::string& name, const Json& values);
  // Writes the moment where it is another than the last.
  void at(const std::string& phase);

  HistoryFile file;
  Injector injector;  // strikes nothing
  CallSites sites;    // addresses mean nothing in a file
  Moment moment;      // `step` is the number of updates so far
  std::string phase;  // that was written last for this step; empty: none
};

class Recorder::Impl {
 public:
  Impl(const c10d::ProcessGroup& group, const std::filesystem::path& folder);
  ~Impl();

  c10::intrusive_ptr<c10d::ProcessGroup> tapped(c10d::ProcessGroup& group);
  void watch(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper);
  std::shared_ptr<SamplerLog> new_sampler_log();
  at::Tensor step(torch::optim::Optimizer& optimizer, torch::optim::Optimizer::LossClosure closure);
  void join_begins();
  void inputs_are_exhausted();
  void join_has_ended();

 private:
  struct Model {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    Wrapper wrapper;
    std::unique_ptr<BackwardHooks> hooks;
    int64_t began_ns = 0;  // the backward pass under way
    int64_t reduced_before = 0;

    std::vector<std::pair<std::string, at::Tensor>> parameters() const;
  };
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  void digests(const std::string& of, const std::string& role, const Named& tensors);
  void record_parameters(const Model& model);
  void record_random(const Model& model);
  void backward_is_over(Model& model);
  void record_update(torch::optim::Optimizer& optimizer);
  std::string name_of_optimizer(const torch::optim::Optimizer& optimizer);

  const ComparisonOptions compares_;
  const std::shared_ptr<RankRecording> recording_;
  std::shared_ptr<TapLog> log_;
  std::vector<std::unique_ptr<Model>> models_;
  std::map<const torch::optim::Optimizer*, std::string> optimizers_;
  std::map<std::string, int> lists_;  // of tensors, by what describes them
  int samplers_ = 0, joins_ = 0;
  bool is_in_a_join_ = false;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace lockstep

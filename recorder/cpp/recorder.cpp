#include "recorder/cpp/recorder_impl.h"

#include <cstdlib>

namespace lockstep {

Recorder::Recorder(c10::intrusive_ptr<c10d::ProcessGroup> group, std::filesystem::path folder)
    : group_(std::move(group)) {
  const char* const named = std::getenv("LOCKSTEP_RECORD");
  if (folder.empty() && named) folder = named;
  if (folder.empty()) return;
  if (!group_) throw std::runtime_error("lockstep::Recorder: the process group is null");
  impl_ = std::make_unique<Impl>(*group_, folder);
  group_ = impl_->tapped(*group_);
}

Recorder::~Recorder() = default;

void Recorder::watch_module(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper) {
  if (!module) throw std::runtime_error("lockstep::Recorder: the module to watch is null");
  impl_->watch(std::move(module), std::move(wrapper));
}

std::shared_ptr<SamplerLog> Recorder::new_sampler_log() {
  return impl_->new_sampler_log();
}

at::Tensor Recorder::step(torch::optim::Optimizer& optimizer,
                          torch::optim::Optimizer::LossClosure closure) {
  return impl_ ? impl_->step(optimizer, std::move(closure)) : optimizer.step(std::move(closure));
}

void Recorder::join_begins() {
  if (impl_) impl_->join_begins();
}

void Recorder::inputs_are_exhausted() {
  if (impl_) impl_->inputs_are_exhausted();
}

void Recorder::join_has_ended() {
  if (impl_) impl_->join_has_ended();
}

}  // namespace lockstep

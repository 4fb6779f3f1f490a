#include "recorder/cpp/recorder_impl.h"

#include <cstdlib>
#include <iostream>

namespace lockstep {

Recorder::Recorder(c10::intrusive_ptr<c10d::ProcessGroup> group, std::filesystem::path folder)
    : group_(std::move(group)) {
  const char* const named = std::getenv("LOCKSTEP_RECORD");
  if (folder.empty() && named) folder = named;
  if (folder.empty()) return;
  try {
    if (!group_) throw std::runtime_error("lockstep::Recorder: the process group is null");
    auto impl = std::make_unique<Impl>(*group_, folder);
    group_ = impl->tapped(*group_);
    impl_ = std::move(impl);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "; this process is not recorded" << std::endl;
  }
}

Recorder::~Recorder() = default;

void Recorder::watch_module(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper) {
  impl_->watch(std::move(module), std::move(wrapper));
}

std::shared_ptr<SamplerLog> Recorder::new_sampler_log() {
  return impl_->new_sampler_log();
}

at::Tensor Recorder::record_step(torch::optim::Optimizer& optimizer,
                                 const std::function<at::Tensor()>& update) {
  return impl_ ? impl_->step(optimizer, update) : update();
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

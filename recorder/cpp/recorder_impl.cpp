#include "recorder/cpp/recorder_impl.h"

#include "harness/rank/tap.h"
#include "harness/rank/tensors.h"
#include "recorder/cpp/digest.h"
#include "recorder/cpp/optimizers.h"
#include "recorder/cpp/sampler_log.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

namespace lockstep {

namespace {

// Modules that drop units at random.
int dropouts_in(const torch::nn::Module& module) {
  int count = 0;
  for (const auto& each : module.modules()) {
    const auto drops = [&](const auto* layer) { return layer && layer->options.p() > 0; };
    const auto* is = each.get();
    count += drops(dynamic_cast<const torch::nn::DropoutImpl*>(is)) ||
             drops(dynamic_cast<const torch::nn::Dropout2dImpl*>(is)) ||
             drops(dynamic_cast<const torch::nn::Dropout3dImpl*>(is)) ||
             drops(dynamic_cast<const torch::nn::AlphaDropoutImpl*>(is)) ||
             drops(dynamic_cast<const torch::nn::FeatureAlphaDropoutImpl*>(is));
  }
  return count;
}

}  // namespace

Recorder::Impl::Impl(const c10d::ProcessGroup& group, const std::filesystem::path& folder)
    : compares_(ComparisonOptions::of_environment()),
      recording_(std::make_shared<RankRecording>(folder_of(compares_, folder), group,
                                                 compares_.perturbed)) {}

Recorder::Impl::~Impl() {
  const bool threw = std::uncaught_exceptions() > exceptions_at_start_;
  recording_->guarded("the end", [&] {
    if (log_) log_->settle();
    recording_->file.end({threw ? Ending::Kind::threw : Ending::Kind::returned,
                          threw ? "an exception left the recorder's scope" : "",
                          {TapLog::monotonic_ns()}});
  });
}

// The clock keeps what the log refers to, for as long as a group has the log.
c10::intrusive_ptr<c10d::ProcessGroup> Recorder::Impl::tapped(c10d::ProcessGroup& group) {
  log_ =
      std::make_shared<TapLog>("world", recording_->file, recording_->injector, recording_->sites,
                               [kept = recording_] { return TapLog::monotonic_ns(); });
  // Keys of its own: instances on the original group number theirs from the same start.
  auto store = group.getStore();
  if (store) store = c10::make_intrusive<c10d::PrefixStore>("recorded", store);
  auto made = c10::make_intrusive<c10d::ProcessGroup>(store, group.getRank(), group.getSize());
  made->setBoundDeviceId(group.getBoundDeviceId());
  made->setGroupDesc(group.getGroupDesc());
  std::map<c10d::Backend*, c10::intrusive_ptr<Tap>> taps;
  for (const auto& device : group.getDeviceTypes()) {
    const auto backend = group.getBackend(device.type());
    auto& tap = taps[backend.get()];
    if (!tap) tap = c10::make_intrusive<Tap>(backend, log_);
    made->setBackend(device.type(), c10d::ProcessGroup::strToBackendType(backend->getBackendName()),
                     tap);
  }
  made->setDefaultBackend(c10d::ProcessGroup::strToBackendType(group.getBackendName()));
  return made;
}

std::shared_ptr<SamplerLog> Recorder::Impl::new_sampler_log() {
  return sampler_log(recording_, "sampler " + std::to_string(samplers_++));
}

std::vector<std::pair<std::string, at::Tensor>> Recorder::Impl::Model::parameters() const {
  Named all;
  const auto is = module.lock();
  if (!is) return all;
  for (const auto& each : is->named_parameters())
    if (each.value().requires_grad()) all.emplace_back(each.key(), each.value());
  return all;
}

std::vector<at::Tensor> Recorder::Impl::Model::tensors() const {
  std::vector<at::Tensor> all;
  for (const auto& [path, parameter] : parameters()) all.push_back(parameter);
  return all;
}

void Recorder::Impl::watch(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper) {
  auto model = std::make_shared<Model>();
  model->name = "model " + std::to_string(watched_++);
  model->module = module;
  model->wrapper = std::move(wrapper);
  models_.push_back(model);
  recording_->guarded(model->name, [&] {
    if (!module) throw std::runtime_error("the module is null");
    record_model(*model, *module);
    set_hooks(model);
  });
}

void Recorder::Impl::record_model(Model& model, const torch::nn::Module& module) {
  recording_->at("construction");
  const auto parameters = model.tensors();
  recording_->fact(model.name, {{"kind", module.name()},
                                {"wrapped", model.wrapper.reduced_passes != nullptr},
                                {"broadcast_buffers", model.wrapper.broadcasts_buffers},
                                {"dropouts", dropouts_in(module)},
                                {"find_unused_parameters", model.wrapper.finds_unused_parameters},
                                {"parameters", parameters.size()}});
  record_parameters(model);
  if (compares_.perturbed > 0) {
    const auto generator =
        at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(compares_.perturbed));
    for (const auto& parameter : parameters) move_by_one_place(parameter, generator);
  }
  record_random(model);
}

// A pass may be under way when the model is forgotten.
void Recorder::Impl::set_hooks(const std::shared_ptr<Model>& model) {
  const auto with_model = [this, known = std::weak_ptr(model)](const char* what,
                                                               void (Impl::*record)(Model&)) {
    return [=, this] {
      if (const auto is = known.lock())
        recording_->guarded(what + is->name, [&] { (this->*record)(*is); });
    };
  };
  model->hooks = std::make_unique<BackwardHooks>(
      model->tensors(),
      BackwardHooks::Listener{with_model("the begin of a backward of ", &Impl::backward_begins),
                              with_model("a backward of ", &Impl::backward_is_over)});
}

void Recorder::Impl::backward_begins(Model& model) {
  recording_->at("backward");
  model.began_ns = TapLog::monotonic_ns();
  model.reduced_before = model.wrapper.reduced_passes ? model.wrapper.reduced_passes() : 0;
}

void Recorder::Impl::digests(const std::string& of, const std::string& role, const Named& tensors) {
  Json described = Json::array();
  std::vector<TensorDigest> values;
  std::vector<at::Tensor> all;
  for (const auto& named : tensors)
    recording_->guarded(role + " of " + of, [&] {
      const auto& tensor = named.second;
      const auto digest = digested(tensor);
      described.push_back({named.first, tensor.defined() ? dtype_word(tensor.scalar_type()) : "",
                           tensor.defined() ? Json(tensor.sizes().vec()) : Json::array()});
      values.push_back(digest);
      all.push_back(tensor);
    });
  const auto key = of + "\n" + role + "\n" + described.dump();
  const auto [found, is_new] = lists_.try_emplace(key, static_cast<int>(lists_.size()));
  if (is_new)
    recording_->file.append(
        FrameKind::tensors,
        {{"list", found->second}, {"of", of}, {"role", role}, {"tensors", described}});
  recording_->file.append(FrameKind::digests, {{"list", found->second}},
                          std::as_bytes(std::span(values)));
  const bool is_compared = role == "parameters" || role == "gradients";
  if (!is_compared || recording_->moment.step >= compares_.values_steps || all.empty()) return;
  recording_->file.append(FrameKind::values, {{"list", found->second}}, elements_of(all));
}

void Recorder::Impl::record_parameters(const Model& model) {
  digests(model.name, "parameters", model.parameters());
}

// Where the next forward finds the random generator, if nothing draws before it.
void Recorder::Impl::record_random(const Model& model) {
  const auto module = model.module.lock();
  if (!module || dropouts_in(*module) == 0) return;
  recording_->at("forward");
  digests(model.name, "random", {{"generator", at::detail::getDefaultCPUGenerator().get_state()}});
}

void Recorder::Impl::backward_is_over(Model& model) {
  recording_->span("backward", model.began_ns);
  const bool is_reduced =
      model.wrapper.reduced_passes && model.wrapper.reduced_passes() > model.reduced_before;
  const bool is_wrapped = model.wrapper.reduced_passes != nullptr;
  recording_->fact("backward", {{"model", model.name},
                                {"kind", is_reduced   ? "synchronised"
                                         : is_wrapped ? "local"
                                                      : "by hand"}});
  Named gradients;
  bool any = false;
  for (const auto& [name, parameter] : model.parameters()) {
    gradients.emplace_back(name, parameter.grad());
    any = any || parameter.grad().defined();
  }
  if (any) digests(model.name, "gradients", gradients);  // else an optimizer has stepped already
}

std::string Recorder::Impl::name_of_optimizer(const torch::optim::Optimizer& optimizer) {
  return optimizers_.try_emplace(&optimizer, "optimizer " + std::to_string(optimizers_.size()))
      .first->second;
}

// Their hooks hold their parameters.
void Recorder::Impl::forget_lost_models() {
  std::erase_if(models_, [](const auto& model) { return model->module.expired(); });
}

at::Tensor Recorder::Impl::step(torch::optim::Optimizer& optimizer,
                                const std::function<at::Tensor()>& update) {
  const auto began = TapLog::monotonic_ns();
  auto loss = update();
  forget_lost_models();
  recording_->guarded("an update", [&] {
    recording_->at("update");
    recording_->span("update", began);
    record_update(optimizer);
  });
  ++recording_->moment.step;
  recording_->phase.clear();
  recording_->guarded("the random numbers of a forward", [&] {
    if (is_in_a_join_) recording_->at("join");
    for (const auto& model : models_) record_random(*model);
  });
  return loss;
}

void Recorder::Impl::join_begins() {
  is_in_a_join_ = true;
  recording_->guarded("the begin of a join", [&] {
    recording_->at("join");
    recording_->fact("join " + std::to_string(joins_), Json::object());
  });
}

// Everything recorded from now on shadows the peers, and belongs to no forward of this rank.
void Recorder::Impl::inputs_are_exhausted() {
  recording_->guarded("a join without inputs", [&] { recording_->at("join"); });
}

void Recorder::Impl::join_has_ended() {
  is_in_a_join_ = false;
  recording_->guarded("the end of a join", [&] {
    recording_->at("joined");
    recording_->fact("join " + std::to_string(joins_++) + " ended", Json::object());
    for (const auto& model : models_) record_parameters(*model);
  });
}

void Recorder::Impl::record_update(torch::optim::Optimizer& optimizer) {
  std::map<c10::TensorImpl*, std::pair<std::string, std::string>> owners;
  for (const auto& model : models_)
    for (const auto& [name, parameter] : model->parameters())
      owners[parameter.unsafeGetTensorImpl()] = {model->name, name};
  Json owned = Json::array();
  Named state;
  int number = 0, foreign = 0;
  for (const auto& group : optimizer.param_groups())
    for (const auto& parameter : group.params()) {
      const auto owner = owners.find(parameter.unsafeGetTensorImpl());
      const bool is_known = owner != owners.end();
      if (is_known) owned.push_back({owner->second.first, owner->second.second});
      foreign += is_known ? 0 : 1;
      const auto of = is_known ? owner->second.first + " " + owner->second.second
                               : "parameter " + std::to_string(number);
      for (auto& [name, tensor] : state_of(optimizer, parameter))
        state.emplace_back(of + " " + name, tensor);
      ++number;
    }
  const auto name = name_of_optimizer(optimizer);
  recording_->fact(name, {{"kind", name_of(optimizer)},
                          {"groups", groups_of(optimizer)},
                          {"owned", owned},
                          {"foreign", foreign}});
  digests(name, "state", state);
  for (const auto& model : models_) record_parameters(*model);
}

}  // namespace lockstep

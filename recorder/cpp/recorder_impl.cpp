#include "recorder/cpp/recorder_impl.h"

#include "harness/recorder/tap.h"
#include "harness/recorder/tensors.h"
#include "recorder/cpp/digest.h"
#include "recorder/cpp/optimizers.h"
#include "recorder/cpp/sampler_log.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>

namespace lockstep {

namespace {

constexpr auto kTensors = static_cast<FrameKind>(11), kDigests = static_cast<FrameKind>(12),
               kFact = static_cast<FrameKind>(13), kSpan = static_cast<FrameKind>(14),
               kValues = static_cast<FrameKind>(15);

// The launcher's number: torchrun's, Slurm's or Open MPI's; else `otherwise`.
int number_of(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* const name : variables)
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}

// Names this machine since it was started: ranks with one name can compare their times.
std::string clock_name() {
  std::string name;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name);
  return name;
}

std::string program_name() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

void append(HistoryFile& file, FrameKind kind, const Json& header,
            std::span<const std::byte> payload = {}) {
  file.append(kind, header, payload);
}

void span(HistoryFile& file, const char* name, int64_t from) {
  append(file, kSpan, {{"name", name}, {"from", from}, {"ns", TapLog::monotonic_ns()}});
}

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

void RankRecording::fact(const std::string& name, const Json& values) {
  file.append(kFact, {{"name", name}, {"values", values}});
}

void RankRecording::at(const std::string& where) {
  if (where == phase) return;
  moment.phase = phase = where;
  file.append_text(FrameKind::moment, header_of(moment));
}

Recorder::Impl::Impl(const c10d::ProcessGroup& group, const std::filesystem::path& folder)
    : compares_(ComparisonOptions::of_environment()),
      recording_(std::make_shared<RankRecording>(
          folder_of(compares_, folder),
          number_of({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}, group.getRank()))) {
  const int rank = number_of({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}, group.getRank());
  const int world =
      number_of({"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}, group.getSize());
  Json begin{{"protocol", kProtocol},          {"rank", rank},           {"world", world},
             {"writer", "lockstep::Recorder"}, {"torch", TORCH_VERSION}, {"clock", clock_name()},
             {"program", program_name()}};
  if (compares_.perturbed > 0) begin["perturbed"] = compares_.perturbed;
  append(recording_->file, FrameKind::begin, begin);
  recording_->fact(
      "process group",
      {{"rank", group.getRank()}, {"world", group.getSize()}, {"backend", group.getBackendName()}});
}

Recorder::Impl::~Impl() {
  if (log_) log_->settle();
  const bool threw = std::uncaught_exceptions() > exceptions_at_start_;
  recording_->file.end({threw ? Ending::Kind::threw : Ending::Kind::returned,
                        threw ? "an exception left the recorder's scope" : "",
                        {TapLog::monotonic_ns()}});
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
  for (const auto& each : module->named_parameters())
    if (each.value().requires_grad()) all.emplace_back(each.key(), each.value());
  return all;
}

void Recorder::Impl::watch(std::shared_ptr<torch::nn::Module> module, Wrapper wrapper) {
  recording_->at("construction");
  auto model = std::make_unique<Model>();
  model->name = "model " + std::to_string(models_.size());
  model->module = std::move(module);
  model->wrapper = std::move(wrapper);
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : model->parameters()) parameters.push_back(parameter);
  recording_->fact(model->name, {{"kind", model->module->name()},
                                 {"wrapped", model->wrapper.reduced_passes != nullptr},
                                 {"broadcast_buffers", model->wrapper.broadcasts_buffers},
                                 {"dropouts", dropouts_in(*model->module)},
                                 {"find_unused_parameters", model->wrapper.finds_unused_parameters},
                                 {"parameters", parameters.size()}});
  record_parameters(*model);
  if (compares_.perturbed > 0) {
    const auto generator =
        at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(compares_.perturbed));
    for (const auto& parameter : parameters) move_by_one_place(parameter, generator);
  }
  record_random(*model);
  const auto reduced = [model = model.get()] {
    return model->wrapper.reduced_passes ? model->wrapper.reduced_passes() : 0;
  };
  const auto begin = [this, model = model.get(), reduced] {
    recording_->at("backward");
    model->began_ns = TapLog::monotonic_ns();
    model->reduced_before = reduced();
  };
  model->hooks = std::make_unique<BackwardHooks>(
      parameters,
      BackwardHooks::Listener{begin, [this, model = model.get()] { backward_is_over(*model); }});
  models_.push_back(std::move(model));
}

void Recorder::Impl::digests(const std::string& of, const std::string& role, const Named& tensors) {
  Json described = Json::array();
  std::vector<TensorDigest> values;
  for (const auto& [name, tensor] : tensors) {
    described.push_back({name, tensor.defined() ? dtype_word(tensor.scalar_type()) : "",
                         tensor.defined() ? Json(tensor.sizes().vec()) : Json::array()});
    values.push_back(digested(tensor));
  }
  const auto key = of + "\n" + role + "\n" + described.dump();
  const auto [found, is_new] = lists_.try_emplace(key, static_cast<int>(lists_.size()));
  if (is_new)
    append(recording_->file, kTensors,
           {{"list", found->second}, {"of", of}, {"role", role}, {"tensors", described}});
  append(recording_->file, kDigests, {{"list", found->second}}, std::as_bytes(std::span(values)));
  const bool is_compared = role == "parameters" || role == "gradients";
  if (!is_compared || recording_->moment.step >= compares_.values_steps || tensors.empty()) return;
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : tensors) all.push_back(tensor);
  append(recording_->file, kValues, {{"list", found->second}}, elements_of(all));
}

void Recorder::Impl::record_parameters(const Model& model) {
  digests(model.name, "parameters", model.parameters());
}

// Where the next forward finds the random generator, if nothing draws before it.
void Recorder::Impl::record_random(const Model& model) {
  if (dropouts_in(*model.module) == 0) return;
  recording_->at("forward");
  digests(model.name, "random", {{"generator", at::detail::getDefaultCPUGenerator().get_state()}});
}

void Recorder::Impl::backward_is_over(Model& model) {
  span(recording_->file, "backward", model.began_ns);
  const bool is_reduced =
      model.wrapper.reduced_passes && model.wrapper.reduced_passes() > model.reduced_before;
  recording_->fact("backward",
                   {{"model", model.name}, {"kind", is_reduced ? "synchronised" : "local"}});
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

at::Tensor Recorder::Impl::step(torch::optim::Optimizer& optimizer,
                                torch::optim::Optimizer::LossClosure closure) {
  const auto began = TapLog::monotonic_ns();
  auto loss = optimizer.step(std::move(closure));
  recording_->at("update");
  span(recording_->file, "update", began);
  record_update(optimizer);
  ++recording_->moment.step;
  recording_->phase.clear();
  if (is_in_a_join_) recording_->at("join");
  for (const auto& model : models_) record_random(*model);
  return loss;
}

void Recorder::Impl::join_begins() {
  recording_->at("join");
  recording_->fact("join " + std::to_string(joins_), Json::object());
  is_in_a_join_ = true;
}

// What comes now shadows the peers, and belongs to no forward of this rank.
void Recorder::Impl::inputs_are_exhausted() {
  recording_->at("join");
}

void Recorder::Impl::join_has_ended() {
  recording_->at("joined");
  recording_->fact("join " + std::to_string(joins_++) + " ended", Json::object());
  is_in_a_join_ = false;
  for (const auto& model : models_) record_parameters(*model);
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

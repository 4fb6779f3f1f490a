#include "scenarios/sync_batch_norm/converted.h"

#include "harness/base/text.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace lockstep::scenarios::sync_batch_norm {

int late_rank(const Converted& c) {
  return c.late < 0 || c.world.size == 1 ? -1 : c.late % c.world.size;
}

std::vector<Place> layers_of(const Converted& c) {
  auto layers = c.layers.empty() ? std::vector<Place>{{}} : c.layers;
  for (auto& each : layers) {
    if (each.in == Container::member) each.own = true;
    if (each.in == Container::sequential) each.own = false;
  }
  return layers;
}

namespace {

torch::nn::BatchNormOptions options_of(const Place& place) {
  return torch::nn::BatchNormOptions(place.channels)
      .eps(std::ldexp(1.0, place.eps_log2))
      .momentum(place.cumulative ? std::nullopt : std::optional(kMovingHalf))
      .track_running_stats(place.tracks);
}

void set_state(const Place& place, torch::nn::Module& layer) {
  layer.to(scalar_type(place.dtype));
  // to() has converted the counter as well.
  if (place.tracks)
    layer.named_buffers()["num_batches_tracked"].set_data(torch::zeros({}, at::kLong));
  for (auto& each : layer.named_parameters())
    each.value().set_requires_grad(place.frozen == FrozenPart::none ||
                                   (place.frozen == FrozenPart::weight && each.key() != "weight"));
  layer.train(!place.evaluates);
}

template <class Norm>
Norm norm_of(const Place& place) {
  Norm norm(options_of(place));
  set_state(place, *norm);
  return norm;
}

// Has a layer as a member.
class Holder : public torch::nn::Cloneable<Holder> {
 public:
  explicit Holder(std::function<ModulePtr()> make) : make_(std::move(make)) { reset(); }
  void reset() override { register_module("norm", make_()); }

 private:
  std::function<ModulePtr()> make_;
};

class Built {
 public:
  Built(const Converted& c, const NormLayers& norms) {
    using namespace torch::nn;
    for (const auto& place : layers_of(c)) {
      const auto own = [place, &norms] {
        auto layer = norms.layer(place.axes, options_of(place));
        set_state(place, *layer);
        return layer;
      };
      if (place.in == Container::member) members_->push_back(std::make_shared<Holder>(own));
      if (place.own && place.in == Container::list) list_->push_back(own());
      if (place.own && place.in == Container::dict) put(own());
      if (place.own) continue;
      if (place.axes == 1) add(place, norm_of<BatchNorm1d>(place));
      if (place.axes == 2) add(place, norm_of<BatchNorm2d>(place));
      if (place.axes == 3) add(place, norm_of<BatchNorm3d>(place));
    }
    torch::OrderedDict<std::string, ModulePtr> parts;
    parts.insert("sequential", sequential_.ptr());
    parts.insert("list", list_.ptr());
    parts.insert("dict", dict_.ptr());
    parts.insert("members", members_.ptr());
    root_->update(parts);
  }
  ModulePtr root() const { return root_.ptr(); }

 private:
  template <class Norm>
  void add(const Place& place, Norm norm) {
    if (place.in == Container::sequential) sequential_->push_back(norm);
    if (place.in == Container::list) list_->push_back(norm.ptr());
    if (place.in == Container::dict) put(norm.ptr());
  }
  void put(const ModulePtr& layer) {
    torch::OrderedDict<std::string, ModulePtr> one;
    one.insert("norm" + std::to_string(dict_->size()), layer);
    dict_->update(one);
  }

  torch::nn::Sequential sequential_;
  torch::nn::ModuleList list_, members_;
  torch::nn::ModuleDict dict_, root_;
};

}  // namespace

ModulePtr built(const Converted& c, const NormLayers& norms) {
  return Built(c, norms).root();
}

std::vector<ModulePtr> called(const Converted& c, const ModulePtr& root) {
  auto& parts = *root->as<torch::nn::ModuleDict>();
  auto& sequential = *parts["sequential"]->as<torch::nn::Sequential>();
  auto& list = *parts["list"]->as<torch::nn::ModuleList>();
  auto& dict = *parts["dict"]->as<torch::nn::ModuleDict>();
  auto& members = *parts["members"]->as<torch::nn::ModuleList>();
  size_t in_sequential = 0, in_list = 0, in_dict = 0, in_members = 0;
  std::vector<ModulePtr> out;
  for (const auto& place : layers_of(c)) {
    if (place.in == Container::sequential) out.push_back(sequential.ptr(in_sequential++));
    if (place.in == Container::list) out.push_back(list.ptr(in_list++));
    if (place.in == Container::dict) out.push_back(dict["norm" + std::to_string(in_dict++)]);
    if (place.in == Container::member)
      out.push_back(members.ptr(in_members++)->named_children()["norm"]);
  }
  return out;
}

double fed(const Converted& c, int rank) {
  return c.world.size * (rank + 1.0);
}

at::Tensor batch_of(const Converted& c, const Place& place, int rank, int axes) {
  constexpr int64_t kSamples = 2, kSide = 2;
  std::vector<int64_t> shape{kSamples, place.channels};
  shape.resize(static_cast<size_t>(2 + axes), kSide);
  const auto batch = torch::full(shape, fed(c, rank), scalar_type(place.dtype));
  batch[0] -= 1;
  batch[1] += 1;
  return batch;
}

std::string name_of_layer(size_t layer, const std::string& what) {
  return "layer " + std::to_string(layer) + "'s " + what;
}

std::string state_of(const ModulePtr& root) {
  std::ostringstream text;
  const auto describe = [&](const auto& each) {
    text << each.key() << " " << each.value().dtype() << each.value().sizes()
         << (each.value().requires_grad() ? " trainable" : "") << "; ";
  };
  for (const auto& each : root->named_parameters()) describe(each);
  for (const auto& each : root->named_buffers()) describe(each);
  return text.str();
}

namespace {

// The average of the batches over which a layer normalises.
double average_of(const Converted& c, bool is_converted, int rank) {
  if (!is_converted) return fed(c, rank);
  double average = 0;
  for (int each = 0; each < c.world.size; ++each) average += fed(c, each) / c.world.size;
  return average;
}

// The parts of state_of.
std::vector<std::string> parts_of(const TensorValue& state) {
  const auto letters = as_integers(state);
  return split(std::string(letters.begin(), letters.end()), ';');
}

}  // namespace

double moved(const Converted& c, const Place& place, double now, int64_t batches, bool is_converted,
             int rank) {
  if (place.evaluates) return now;
  const double weight = place.cumulative ? 1 / static_cast<double>(batches + 1) : kMovingHalf;
  return now + (average_of(c, is_converted, rank) - now) * weight;
}

double normalised(const Converted& c, const Place& place, bool is_converted, int rank) {
  const double average = average_of(c, is_converted, rank);
  double variance = 1;
  for (int each = 0; is_converted && each < c.world.size; ++each)
    variance += std::pow(fed(c, each) - average, 2) / c.world.size;
  return (fed(c, rank) - 1 - average) / std::sqrt(variance + std::ldexp(1.0, place.eps_log2));
}

Findings state_stays(const Row& row, const std::vector<TensorValue>& built) {
  for (size_t rank = 0; rank < built.size(); ++rank) {
    const auto now = parts_of(row.by_rank[rank]), before = parts_of(built[rank]);
    const auto differs = std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    if (differs.first == now.end() && differs.second == before.end()) continue;
    const auto text = [](auto part, auto end) { return part == end ? "nothing" : *part; };
    return {{"A conversion must leave names, dtypes, shapes and requires_grad as they are",
             "another_state", FindingPlace(row.at, row.name),
             "rank " + std::to_string(rank) + " has '" + text(differs.first, now.end()) +
                 "', where it had '" + text(differs.second, before.end()) + "'"}};
  }
  return {};
}

}  // namespace lockstep::scenarios::sync_batch_norm

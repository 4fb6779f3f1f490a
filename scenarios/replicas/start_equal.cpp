// Wrapping makes every replica start from rank 0's state: parameters, frozen ones too, and buffers
// of every dtype.
//
// Every rank builds its module from another seed, so a tensor that is left out of the broadcast
// keeps values that no other rank has. The expected values need no run: the case's seed gives those
// of rank 0. The forward's own broadcast of buffers would hide a missing one, so no forward runs.
// The state travels in messages of 250 MiB, which a model of this size does not fill: so most cases
// make them smaller.
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/options.h"

#include <array>

namespace lockstep::scenarios::replicas_start_equal {
namespace {

constexpr const char* kWrapping = "wrapping";

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const auto frozen : {FrozenDtype::none, FrozenDtype::float32, FrozenDtype::float64})
      for (const bool broadcast_buffers : {true, false})
        all.push_back(
            {.world = {.size = world},
             .network = {.buffers = {Dtype::float32, Dtype::float64, Dtype::int64, Dtype::int32,
                                     Dtype::int16, Dtype::int8, Dtype::uint8, Dtype::bool_},
                         .frozen = frozen},
             .options = {.broadcast_buffers = broadcast_buffers},
             .seed = 3});
  return all;
}

// The subject's own, or one that some tensors fill: as if the model were as many times larger.
int64_t broadcast_cap_of(const Training& c) {
  constexpr std::array<int64_t, 5> kCaps{0, 1, 8, 40, 100};
  return kCaps[c.seed % kCaps.size()];
}

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  auto options = c.options;
  options.further.broadcast_cap_bytes = broadcast_cap_of(c);
  here.enter(0, kWrapping);
  const auto replica = wrap(here, model, options);
  here.enter(0, "wrapped");
  record_parameters(here, *model);
  record_buffers(here, *model);
}

using Initial = std::vector<NamedTensor> (*)(const Training&, uint64_t);

Findings start_as_rank_zero(const Training& c, const History& h, Initial initial,
                            const std::string& rule, const std::string& cause = {}) {
  std::vector<Comparison> rows;
  const auto right = initial(c, build_seed(c, 0));
  for (size_t i = 0; i < right.size(); ++i) {
    const auto dtype = right[i].value.scalar_type();
    const auto own_values = [c, initial, i, dtype, cause] {
      std::vector<TensorValue> own;
      for (int rank = 0; rank < c.world.size; ++rank)
        own.push_back(recorded(initial(c, build_seed(c, rank))[i].value, dtype));
      return initial_states(own, cause);
    };
    rows.push_back({.row = h.row({0, "wrapped"}, right[i].name),
                    .expected = {recorded(right[i].value, dtype)},
                    .explanations = own_values});
  }
  return equal(rule, rows);
}

Findings parameters_start_as_rank_zeros(const Training& c, const History& h) {
  auto out = start_as_rank_zero(c, h, initial_parameters,
                                "Every replica must start from rank 0's parameters");
  out += start_as_rank_zero(c, h, initial_frozen,
                            "Every replica must start from rank 0's frozen parameters");
  return out;
}

Findings buffers_start_as_rank_zeros(const Training& c, const History& h) {
  return start_as_rank_zero(c, h, initial_buffers, "Every replica must start from rank 0's buffers",
                            cause_of_unlike_buffers(c.options));
}

// A subject may send more with it, or in another form; then nothing is known of it.
Findings the_state_is_sent_once(const Training& c, const History& h) {
  int64_t bytes = 0, sent = 0;
  for (const Initial initial : {initial_parameters, initial_frozen, initial_buffers})
    for (const auto& each : initial(c, build_seed(c, 0)))
      bytes += static_cast<int64_t>(each.value.nbytes());
  for (const auto& each : h.collectives(0, {0, kWrapping})) {
    if (each.op != "broadcast") continue;
    if (each.dtype != "uint8") return {};
    sent += each.elements;
  }
  if (sent <= bytes) return {};
  return {{"Wrapping must send rank 0's state once", "sent_more_than_once", kWrapping,
           "rank 0 broadcasts " + std::to_string(sent) + " bytes, expected " +
               std::to_string(bytes) + " at most"}};
}

}  // namespace

Scenario start_equal() {
  return scenario<Training>({
      .name = "replicas.start_equal",
      .claim = "After wrapping every rank holds rank 0's parameters and buffers, bit for bit.",
      .exactness = "bit-equal",
      .source = "torch.nn.parallel.DistributedDataParallel, init_sync; docs/semantics.md 1.2",
      .not_covered = "init_sync off, ignored names, the optimizer's state",
      .usual_mistake = "broadcasting the parameters and leaving out the buffers, or the frozen "
                       "parameters.",
      .tags = {"core", "replicas"},
      .must_catch = {"initial_broadcast_left_out", "initial_buffers_left_out",
                     "pretrained_load_skipped"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = trainings(),
      .program = program,
      .checks = {parameters_start_as_rank_zeros, buffers_start_as_rank_zeros,
                 the_state_is_sent_once},
      .labels = {{"three ranks and more", 0.25, has_three_ranks<Training>},
                 {"several messages", 0.25,
                  [](const Training& c) { return broadcast_cap_of(c) > 0; }},
                 {"buffers", 0.25, [](const Training& c) { return !c.network.buffers.empty(); }},
                 {"a frozen parameter", 0.08,
                  [](const Training& c) { return c.network.frozen != FrozenDtype::none; }}},
      .unused = {"steps", "network.order_by_rank", "batch_log2", "shares", "micro_batches",
                 "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::replicas_start_equal

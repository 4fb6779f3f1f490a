#include "scenarios/sampler/acts.h"

#include "reference/sampling.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::scenarios {

namespace {

// The rules of semantics 4 for one rank's sampler.
class SamplerRules {
 public:
  SamplerRules(const Acts& c, int rank, SamplerMistake mistake)
      : c_(c), rank_(rank), mistake_(mistake), mine_{.length = c.length} {}

  Samples run(const Act& step) {
    if (step.act == ActKind::draw) return draw(step.amount);
    if (step.act == ActKind::begin) begin();
    if (step.act == ActKind::resize) {
      if (step.amount == 0 && !c_.allow_empty) return kRefused;
      mine_.length = step.amount;
      begin();
    }
    if (step.act == ActKind::copy) left_ = mine_;
    if (step.act == ActKind::turn && left_) std::swap(mine_, *left_);
    if (step.act == ActKind::epoch) set_epoch(step.amount);
    if (step.act == ActKind::save) save();
    if (step.act == ActKind::save_at) return save_at(step.amount);
    if (!saved_) return {};
    if (step.act == ActKind::load) load();
    if (step.act == ActKind::restart) {
      left_.reset();
      load();
    }
    return step.act == ActKind::reseed ? kRefused : Samples();
  }

 private:
  struct Pass {
    int64_t epoch = 0, length = 0, position = 0;
  };
  struct Copy {
    int64_t length = 0;
    std::optional<Pass> begun;  // that it draws from
  };
  struct Saved {
    int64_t epoch = 0;
    Pass pass;
  };

  void begin() {
    mine_.begun.reset();
    if (!is_loaded_ || mistake_ == SamplerMistake::loaded_position_reset) {
      pass_.reset();
      is_loaded_ = false;
    }
  }

  void set_epoch(int64_t epoch) {
    if (is_loaded_ && epoch != pass_->epoch && mistake_ != SamplerMistake::loaded_epoch_kept) {
      pass_.reset();
      is_loaded_ = false;
    }
    epoch_ = epoch;
  }

  Samples draw(int64_t most) {
    if (most == 0) return {};
    auto& begun = mine_.begun;
    if (!begun) {
      const Pass next = is_loaded_ ? *pass_ : Pass{.epoch = epoch_, .length = mine_.length};
      if (next.length != mine_.length || is_refused(c_.order, next.length)) return kRefused;
      begun = next;
      is_loaded_ = is_loaded_ && mistake_ == SamplerMistake::loaded_pass_repeats;
    }
    const auto order = begun->length == 0 ? Samples() : order_of(*begun);
    const auto all = static_cast<int64_t>(order.size());
    const int64_t end = std::min(all, begun->position + most);
    Samples drawn(order.begin() + begun->position, order.begin() + end);
    begun->position = end;
    if (!is_loaded_ || mistake_ == SamplerMistake::loaded_position_overwritten) pass_ = begun;
    return drawn;
  }

  Samples order_of(const Pass& pass) const {
    auto order = reference::rank_order({.length = pass.length,
                                        .world_size = c_.world.size,
                                        .shuffle = c_.shuffle || c_.order != SampleOrder::own,
                                        .drop_last = c_.drop_last,
                                        .pad = c_.pad,
                                        .constant_memory = is_computed(c_),
                                        .seed = c_.seed,
                                        .epoch = pass.epoch},
                                       rank_);
    for (auto& sample : order) sample = sample_at(c_.order, sample, pass.length);
    return order;
  }

  void save() {
    saved_ = Saved{epoch_, pass_.value_or(Pass{.epoch = epoch_, .length = mine_.length})};
  }

  Samples save_at(int64_t used) {
    if (used > (pass_ ? pass_->position : 0)) return kRefused;
    save();
    if (mistake_ != SamplerMistake::used_ignored) saved_->pass.position = used;
    return {};
  }

  void load() {
    epoch_ = saved_->epoch;
    pass_ = saved_->pass;
    is_loaded_ = pass_->position > 0 || pass_->epoch != epoch_;
    if (!is_loaded_) pass_.reset();
    if (is_loaded_ && mistake_ == SamplerMistake::position_lost) pass_->position = 0;
    mine_.begun.reset();
  }

  const Acts& c_;
  const int rank_;
  const SamplerMistake mistake_;
  Copy mine_;
  std::optional<Copy> left_;
  // The state that copies share.
  int64_t epoch_ = 0;
  std::optional<Pass> pass_;  // that was drawn from last; if `is_loaded_`, the next one
  bool is_loaded_ = false;
  std::optional<Saved> saved_;
};

}  // namespace

ShardOptions options_of(const Acts& c) {
  return {.length = c.length,
          .shuffle = c.shuffle,
          .drop_last = c.drop_last,
          .pad = c.pad,
          .constant_memory = is_computed(c),
          .seed = c.seed,
          .order = c.order,
          .from_group = c.from_group,
          .allow_empty = c.allow_empty};
}

ShardOptions others_of(const Acts& c, int64_t which, int rank) {
  auto options = options_of(c);
  const auto flip = [](bool& flag) { flag = !flag; };
  switch (which % 7) {
    case 0:
      options.seed ^= 1;
      break;
    case 1:
      if (c.world.size == 1)
        options.seed ^= 1;  // There is no other rank.
      else
        options.rank = (rank + 1) % c.world.size;
      break;
    case 2:
      flip(options.drop_last);
      break;
    case 3:
      flip(options.pad);
      break;
    case 4:
      flip(options.shuffle);
      break;
    case 5:
      options.ranks = c.world.size + 1;
      break;
    default:
      flip(options.constant_memory);
  }
  return options;
}

std::vector<std::vector<TensorValue>> expected_samples(const Acts& c, SamplerMistake mistake) {
  std::vector<std::vector<TensorValue>> all(c.acts.size());
  for (int rank = 0; rank < c.world.size; ++rank) {
    SamplerRules rules(c, rank, mistake);
    for (size_t step = 0; step < c.acts.size(); ++step)
      all[step].push_back(int64_values(rules.run(c.acts[step])));
  }
  return all;
}

}  // namespace lockstep::scenarios

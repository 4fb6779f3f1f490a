// Runs the acts of a case on one rank's sampler.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/sampler/acts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::scenarios {

// Runs the acts on one rank.
class Acting {
 public:
  Acting(const Acts& c, RankContext& here)
      : c_(c), here_(here), sampler_(shard(here, options_of(c))) {}

  // Returns the samples that it drew, and whether it was refused instead.
  std::pair<Samples, bool> run(const Act& step) {
    try {
      return {run_unless_refused(step), false};
    } catch (const Unsupported&) {
      throw;
    } catch (const std::exception&) {
      return {{}, true};
    }
  }

 private:
  Samples run_unless_refused(const Act& step) {
    if (step.act == ActKind::draw)
      return step.amount == 0 ? Samples() : sampler_->next(step.amount);
    if (step.act == ActKind::begin) sampler_->begin({});
    if (step.act == ActKind::resize) {
      sampler_->begin(step.amount);
      length_ = step.amount;
    }
    if (step.act == ActKind::epoch) sampler_->set_epoch(step.amount);
    if (step.act == ActKind::copy) {
      sampler_->go_on_with_a_copy();
      left_length_ = length_;
    }
    if (step.act == ActKind::turn) {
      sampler_->turn_to_the_other_copy();
      if (left_length_) std::swap(length_, *left_length_);
    }
    if (step.act == ActKind::save) saved_ = sampler_->save({});
    if (step.act == ActKind::save_at) saved_ = sampler_->save(step.amount);
    if (saved_.empty()) return {};
    if (step.act == ActKind::load) sampler_->load(saved_);
    if (step.act == ActKind::restart) load_into_a_new_one();
    if (step.act == ActKind::reseed)
      shard(here_, others_of(c_, step.amount, here_.rank()))->load(saved_);
    return {};
  }

  // With the dataset's size at that moment.
  void load_into_a_new_one() {
    auto options = options_of(c_);
    options.length = length_;
    sampler_ = shard(here_, options);
    left_length_.reset();
    sampler_->load(saved_);
  }

  const Acts& c_;
  RankContext& here_;
  std::unique_ptr<Shard> sampler_;
  int64_t length_ = c_.length;
  std::optional<int64_t> left_length_;  // of the copy that was left last
  std::string saved_;
};

}  // namespace lockstep::scenarios

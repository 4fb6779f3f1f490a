#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

struct JoinUnderWay;

// Something beside a DistributedDataParallel whose calls in a training loop are Collective, such as
// an optimizer that the ranks share. Given to its join(), it is shadowed too: when the ranks that
// have inputs make such a call, those without take part in what it sends.
//
//   class Metrics : public lockstep::Joinable {
//    public:
//     std::string name() const override { return "metrics"; }
//     void add(double value) { announce(); exchange(value); }
//     void shadow() override { exchange(0); }
//     ...
//   };
//
// It may be in one join at a time. Source: torch.distributed.algorithms.Joinable and JoinHook,
// whose main_hook and post_hook are shadow() and all_have_joined(); docs/semantics.md 5.
class Joinable {
 public:
  Joinable() = default;
  virtual ~Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;

  // For errors; equal on all ranks.
  virtual std::string name() const = 0;

  // On a rank without inputs, for every announce() of the ranks that have some: takes part in what
  // the announced call sends. Collective.
  virtual void shadow() = 0;

  // On every rank, at the end of finish(): no rank has inputs any more. `last_to_join` is the
  // highest group rank that had inputs last, from which DistributedDataParallel has broadcast
  // parameters and buffers before. Collective.
  virtual void all_have_joined(int /*last_to_join*/) {}

 protected:
  // The first thing in each Collective call: in a join the ranks exchange that this call comes
  // next. Collective there; blocks; throws DisagreementError, on all ranks, if another rank that
  // has inputs does something else, UnevenInputsError, on all ranks, where the join throws and a
  // rank has none, and CommunicationError. Outside a join it does nothing.
  void announce() {
    if (const auto tell = tell_) tell();  // a copy, since this may be the end of the join
  }

 private:
  friend struct JoinUnderWay;
  std::function<void()> tell_;
};

}  // namespace lockstep

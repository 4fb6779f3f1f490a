// A model of a ProgramSpec between two steps: which step means something to it next.
#pragma once

#include "scenarios/programs/actions.h"
#include "scenarios/programs/frozen.h"

#include <optional>

namespace lockstep::scenarios::programs {

class Progress {
 public:
  Progress(const ProgramSpec& c, int model);

  // True if the step of an action means something here; adds what it does.
  bool runs(Action& action);

  // True if a join may begin here; with a static graph no rank can shadow another.
  bool joins(Action& action) const;

  // The join ends, and with it the open graphs.
  void finishes(Action& action);

  // True if its replica is there and knows what is frozen.
  bool is_ready() const { return is_wrapped_ && !is_broken_ && frozen_.is_noted(); }

  // True if ranks exchange nothing in this forward, nor before all of them have issued the pass of
  // its graph: then each rank may run it among those of other models in an order of its own.
  bool goes_in_any_order(const Step& forward) const;

  // The ranks that train together.
  const std::vector<std::vector<int>>& parts() const { return parts_; }

 private:
  // An open graph.
  struct Graph {
    int step = 0;
    bool is_synchronised = false;
    int reductions_before = 0;
    bool has_output = true;  // else functions tell whose it is, which a new group forgets
    // Where unused parameters are found, they are those of the forwards since the last reduction: a
    // later forward may not reach what this graph does.
    bool is_superseded = false;
    bool is_stale = false;  // it does not reach parameters that were unfrozen since
  };

  bool notes();
  bool opens(Action& action);
  bool throws(const Action& action);
  bool converts();
  bool runs_bare(Action& action);
  bool closes(Action& action);
  bool may_be_reduced(const std::vector<Graph>& graphs) const;
  static bool may_recompute(const Action& action, const std::vector<Graph>& graphs);
  bool begins_anew();
  bool freezes(const Step& step);
  bool unwraps();
  bool wraps(const Step& step);
  bool regroups(const Step& step);
  bool may_write_parameters() const { return !saves_parameters_ || open_.empty(); }
  bool is_alone(const Step& step) const;
  bool may_leave_out(const Step& step, bool is_synchronised);

  const ProgramSpec& c_;
  std::vector<std::vector<int>> parts_;
  bool saves_parameters_ = false;  // an open graph does
  FrozenLayers frozen_;
  bool is_broken_ = false;  // by a forward that it refused
  int held_ = 0;            // guards
  bool recomputes_ = false, is_sparse_ = false;
  bool is_wrapped_ = true;
  bool has_lost_hooks_ = false;
  std::vector<Graph> open_;
  int reduction_count_ = 0;
  bool is_outstanding_ = false;  // a synchronised forward, since the last reduction
  // Since its buckets were planned: a pass was reduced; and they were rebuilt after that.
  bool has_reduced_ = false, is_rebuilt_ = false;
  std::optional<std::vector<uint32_t>> static_bits_;
};

}  // namespace lockstep::scenarios::programs

#include "scenarios/errors/follow.h"

#include <algorithm>

namespace lockstep::scenarios::errors {

namespace {

// One rank between two steps.
struct Rank {
  std::vector<Gradient> gradients;
  std::vector<bool> was_used;  // since the last average
  std::vector<int> arrivals;   // in the first pass of a static graph
};

class Training {
 public:
  Training(const Erring& c, const std::vector<bool>& late)
      : c_(c),
        late_(late),
        count_(parameter_count(c)),
        ranks_(static_cast<size_t>(c.world.size),
               {std::vector<Gradient>(count_), std::vector<bool>(count_, false), {}}) {}

  Followed step(int step) {
    if (c_.mistake.kind == MistakeKind::skipped && some_err(step)) return skipped_by_all();
    for (int r = 0; r < c_.world.size; ++r) clear(step, r);
    for (int r = 0; r < c_.world.size; ++r)
      for (int pass = 0; pass < c_.local_passes; ++pass) local_pass(step, pass, r);
    if (begins_anew(c_) && some_err(step) && !is_late_exception(step)) return with_an_end(step);
    return synchronised_pass(step);
  }

 private:
  bool is_static() const { return c_.options.static_graph; }
  bool finds_unused() const { return c_.options.find_unused_parameters && !is_static(); }
  bool is_learning() const { return is_static() && !is_learned_; }
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  bool some_err(int step) const {
    for (int r = 0; r < c_.world.size; ++r)
      if (errs(c_, step, r)) return true;
    return false;
  }
  bool is_mistake(int step, int rank, MistakeKind kind, size_t parameter) const {
    return errs(c_, step, rank) && c_.mistake.kind == kind && mistaken_parameter(c_) == parameter;
  }
  bool is_late(int step) const { return !late_.empty() && late_[static_cast<size_t>(step)]; }
  // A pass in which a rank calls forward: it ends with an exception, and launches all its buckets.
  bool is_late_exception(int step) const {
    return c_.mistake.kind == MistakeKind::forward_in_backward && is_late(step);
  }
  bool throws_in_backward(int step, int rank) const {
    const auto p = mistaken_parameter(c_);
    return is_mistake(step, rank, MistakeKind::throw_in_backward, p) ||
           (is_late_exception(step) && is_mistake(step, rank, MistakeKind::forward_in_backward, p));
  }

  Followed skipped_by_all() const {
    Followed out{.errors = std::vector<ExpectedError>(ranks_.size()), .gradients = {}};
    for (const auto& rank : ranks_) out.gradients.push_back(rank.gradients);
    return out;
  }

  void clear(int step, int r) {
    for (size_t p = 0; p < count_; ++p) {
      auto& is = at(r).gradients[p];
      if (c_.clears == Clears::none) is = {};
      if (c_.clears == Clears::zero) is = {.is_defined = is.is_defined};
      if (c_.clears == Clears::own) is = {.is_defined = true, .value = own_number(c_, step, r, p)};
    }
  }

  static void add(Gradient& gradient, double value) {
    gradient.is_defined = true;
    gradient.value += value;
  }

  // The engine calls the hook of a parameter, whether it brings a gradient or not.
  void arrive(Rank& rank, size_t p, std::optional<LackKind> lack, double value) const {
    if (lack != LackKind::undefined) add(rank.gradients[p], value);
    if (rank.gradients[p].is_defined) rank.was_used[p] = true;
  }

  void local_pass(int step, int pass, int r) {
    for (size_t p = 0; p < count_; ++p) {
      const auto lack = lack_of(c_, step, r, p, true);
      if (!lack || lack == LackKind::undefined)
        arrive(at(r), p, lack, coefficient(c_, step, pass, r, p));
    }
  }

  // How often the gradient of a parameter arrives in this rank's pass.
  int arrivals_of(int step, int r, size_t p) const {
    if (is_mistake(step, r, MistakeKind::in_the_loss, p)) return 1;
    const auto lack = lack_of(c_, step, r, p, false);
    if (lack == LackKind::unused || lack == LackKind::left_out) return 0;
    return is_mistake(step, r, MistakeKind::twice, p) ? 2 : 1;
  }

  // Those before it in forward come after it in backward.
  bool is_behind_the_exception(int step, int r, size_t p) const {
    if (!throws_in_backward(step, r)) return false;
    const auto order = order_of(c_, r);
    const auto place = [&](size_t parameter) {
      return std::find(order.begin(), order.end(), parameter) - order.begin();
    };
    return place(p) <= place(mistaken_parameter(c_));
  }

  // Adds up the gradients of autograd, and returns the rank's error; "" where all is well.
  std::string run_backward(int step, int r) {
    auto& rank = at(r);
    std::string first_error;
    const auto report = [&](const std::string& error) {
      if (first_error.empty()) first_error = error;
    };
    for (size_t p = 0; is_static() && is_learned_ && p < count_; ++p)
      // The loss's own gradient has come before the pass begins, as a .grad of another dtype has.
      if (rank.arrivals[p] == 0 && rank.was_used[p] &&
          (rank.gradients[p].is_defined || is_mistake(step, r, MistakeKind::dtype, p)) &&
          !is_mistake(step, r, MistakeKind::in_the_loss, p))
        report(of(p) + "came in a local pass and not in the first one");
    std::vector<size_t> lacked;
    auto order = order_of(c_, r);
    std::reverse(order.begin(), order.end());
    for (const auto p : order) {
      if (is_behind_the_exception(step, r, p)) continue;
      const int arrivals = arrivals_of(step, r, p);
      const auto error = error_of_arrival(step, r, p, arrivals);
      if (!error.empty()) report(error);
      if (arrivals > 0)
        arrive(rank, p, lack_of(c_, step, r, p, false), gradient_of_pass(step, r, p));
    }
    for (size_t p = 0; p < count_; ++p) {
      const int arrivals = arrivals_of(step, r, p);
      const int wanted = is_static() && is_learned_ ? rank.arrivals[p] : 1;
      if (arrivals < wanted && !finds_unused() && !is_learning()) lacked.push_back(p);
    }
    // A forward is refused before its pass ends, and what a rank reports first stays.
    if (throws_in_backward(step, r))
      return is_late_exception(step) ? own_word(c_, r)
                                     : "an exception was thrown in the backward pass";
    if (!first_error.empty() || lacked.empty()) return first_error;
    std::string names;
    for (const auto p : lacked) names += (names.empty() ? "'" : ", '") + name_of(p) + "'";
    return "lacks " + names;
  }

  static std::string of(size_t p) { return "the gradient of '" + name_of(p) + "' "; }

  double gradient_of_pass(int step, int r, size_t p) const {
    const double own = coefficient(c_, step, c_.local_passes, r, p);
    if (is_mistake(step, r, MistakeKind::in_the_loss, p)) return surplus(c_, step, r, p);
    return is_mistake(step, r, MistakeKind::twice, p) ? own + surplus(c_, step, r, p) : own;
  }

  bool is_reached_locally(int step, int r, size_t p) const {
    return c_.local_passes > 0 && lack_of(c_, step, r, p, true) != LackKind::unused;
  }

  std::string error_of_arrival(int step, int r, size_t p, int arrivals) {
    const auto& rank = at(r);
    if (arrivals == 0) return "";
    if (!is_static()) {
      if (finds_unused() && is_mistake(step, r, MistakeKind::in_the_loss, p) &&
          !is_reached_locally(step, r, p))
        return of(p) + "came, though no output of forward depends on it";
      if (arrivals > 1) return of(p) + "came twice in one backward pass";
    }
    const auto lack = lack_of(c_, step, r, p, false);
    const bool is_there = rank.gradients[p].is_defined || lack != LackKind::undefined;
    if (is_mistake(step, r, MistakeKind::dtype, p))
      return of(p) + "has dtype " + (c_.dtype == Dtype::float64 ? "Float" : "Double") +
             ", expected the parameter's, " + (c_.dtype == Dtype::float64 ? "Double" : "Float");
    // A gradient is counted behind the look at its dtype, and before it is packed.
    if (is_static() && is_learned_ && arrivals > rank.arrivals[p])
      return of(p) + "came more often than in the first pass";
    if (is_mistake(step, r, MistakeKind::sparse, p) && !rank.gradients[p].is_defined && is_there)
      return of(p) + "is sparse, though it is no weight of an Embedding with sparse=true";
    return "";
  }

  Followed synchronised_pass(int step) {
    Followed out;
    std::vector<std::string> states;
    bool is_well = true;
    for (int r = 0; r < c_.world.size; ++r) {
      states.push_back(run_backward(step, r));
      is_well = is_well && states.back().empty();
    }
    if (is_well && ranks_part(c_, step)) {
      if (is_late(step)) return anew([&](int r) { return error_of_a_late_number(c_, step, r); });
      for (int r = 0; r < c_.world.size; ++r)
        states[static_cast<size_t>(r)] = state_of_its_number(c_, step, r);
    }
    if (!is_well && is_late(step))
      return anew([&](int r) { return late_error(c_, r, states, throws_in_backward(step, r)); });
    if (ranks_part(c_, step)) return anew([&](int r) { return due(step, r, states, false); });
    for (int r = 0; r < c_.world.size; ++r) out.errors.push_back(due(step, r, states, is_well));
    if (is_well) {
      average(step);
    } else if (c_.options.gradient_as_bucket_view) {
      for (auto& rank : ranks_)
        for (auto& each : rank.gradients) each.is_known = false;
    }
    for (const auto& rank : ranks_) out.gradients.push_back(rank.gradients);
    forget_what_the_caller_clears(step);
    return out;
  }

  ExpectedError due(int step, int r, const std::vector<std::string>& states, bool is_well) const {
    if (is_well) return {};
    if (throws_in_backward(step, r))
      return {.kind = ExpectedError::Kind::own, .words = {planted(mistaken_parameter(c_), r)}};
    ExpectedError expected{.kind = ExpectedError::Kind::unfinished};
    for (const auto& each : states) expected.states.push_back(each.empty() ? kAllIsWell : each);
    return expected;
  }

  // The program drops a .grad of another dtype or layout, so that later steps go well.
  void forget_what_the_caller_clears(int step) {
    for (int r = 0; r < c_.world.size; ++r)
      for (size_t p = 0; p < count_; ++p)
        for (const auto kind : {MistakeKind::dtype, MistakeKind::sparse})
          if (is_mistake(step, r, kind, p)) at(r).gradients[p] = {};
  }

  void average(int step) {
    std::vector<bool> is_used(count_, true);
    if (finds_unused() || is_learning()) {
      is_used.assign(count_, false);
      for (int r = 0; r < c_.world.size; ++r)
        for (size_t p = 0; p < count_; ++p) {
          const bool holds = at(r).was_used[p] && at(r).gradients[p].is_defined;
          const bool arrives = is_learning() && arrivals_of(step, r, p) > 0;
          if (holds || arrives) is_used[p] = true;
        }
    } else if (is_static()) {
      is_used = used_in_first_pass_;
    }
    for (size_t p = 0; p < count_; ++p)
      if (is_used[p]) average_parameter(p);
    if (is_learning()) learn(step, is_used);
    for (auto& rank : ranks_) rank.was_used.assign(count_, false);
  }

  void average_parameter(size_t p) {
    double sum = 0;
    bool is_known = true;
    for (const auto& rank : ranks_) {
      sum += rank.gradients[p].value;
      is_known = is_known && rank.gradients[p].is_known;
    }
    for (auto& rank : ranks_)
      rank.gradients[p] = {.is_defined = true, .is_known = is_known, .value = sum / c_.world.size};
  }

  void learn(int step, const std::vector<bool>& is_used) {
    is_learned_ = true;
    used_in_first_pass_ = is_used;
    for (int r = 0; r < c_.world.size; ++r) {
      at(r).arrivals.clear();
      for (size_t p = 0; p < count_; ++p) at(r).arrivals.push_back(arrivals_of(step, r, p));
    }
  }

  // Some ranks cannot continue, or all of them; then all begin anew, without gradients.
  Followed with_an_end(int step) {
    return anew([&](int r) { return error_at_the_end(c_, step, r); });
  }

  template <typename ErrorOfRank>
  Followed anew(const ErrorOfRank& error_of_rank) {
    Followed out{.errors = {}, .gradients = {}, .are_judged = false};
    for (int r = 0; r < c_.world.size; ++r) out.errors.push_back(error_of_rank(r));
    for (auto& rank : ranks_)
      rank = {std::vector<Gradient>(count_), std::vector<bool>(count_, false), {}};
    is_learned_ = false;
    for (const auto& rank : ranks_) out.gradients.push_back(rank.gradients);
    return out;
  }

  const Erring& c_;
  const std::vector<bool>& late_;
  const size_t count_;
  std::vector<Rank> ranks_;
  bool is_learned_ = false;
  std::vector<bool> used_in_first_pass_;
};

}  // namespace

std::vector<Followed> follow_in_step(const Erring& c, const std::vector<bool>& late) {
  std::vector<Followed> all;
  Training training(c, late);
  for (int step = 0; step < c.steps; ++step) all.push_back(training.step(step));
  return all;
}

}  // namespace lockstep::scenarios::errors

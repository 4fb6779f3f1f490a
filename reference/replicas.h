// The parameters and gradients of W data-parallel replicas in the course of a training, from the
// definition, in double precision: what local backward passes add, what an average leaves, what
// clearing and an update do. It certifies that a narrower format holds every number exactly,
// whatever the order of sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep::reference {

// A parameter as it is stored, with its value at the start, float64.
struct StoredParameter {
  at::ScalarType dtype = at::kFloat;
  at::Tensor value;
};

enum class Cleared { to_none, in_place };

enum class Divisor { group_size, ranks_with_inputs };

// How a gradient's share of an average is computed: divided by the divisor, or multiplied by its
// rounded reciprocal. Where it is not known, both have to give one number.
enum class Scaling { unknown, divided, multiplied };

class Replicas {
 public:
  Replicas(int world_size, const std::vector<StoredParameter>& parameters);

  // A backward pass of `rank` brought these gradients, float64; undefined where none came.
  void add(int rank, const std::vector<at::Tensor>& gradients);

  // The ranks that average with each other; every rank is in one of these lists. All at first.
  void average_within(const std::vector<std::vector<int>>& groups) { groups_ = groups; }

  // By rank: whether it has inputs, as all have at first. The others take no part in averages,
  // whose divisor is the size of the group or the number of its ranks that have inputs.
  void have_inputs(const std::vector<bool>& ranks) { has_inputs_ = ranks; }
  void divide_by(Divisor divisor) { divisor_ = divisor; }

  // How the next average scales this gradient; it is not known at first.
  void scale_by(int rank, size_t p, Scaling scaling) {
    ranks_[static_cast<size_t>(rank)].scaling[p] = scaling;
  }

  // Sets whether a parameter takes part in averages, as all do at first. Gradients of passes before
  // it was left out count no more.
  void take_part(size_t p, bool takes_part);

  // The end of a pass that is reduced: each gradient that a pass has brought to some rank of a
  // group since the last average becomes the average over the group, in which a rank without one
  // counts as zero. A group without inputs does not change.
  void average();

  // True if the last average() of this rank's group changed that gradient.
  bool was_averaged(int rank, size_t p) const { return at(rank).was_averaged[p]; }

  // From here on nothing counts as brought.
  void forget_passes();

  // A rank continues from what it was seen to hold. An undefined gradient: it has none.
  void hold(int rank, size_t p, const at::Tensor& parameter, const at::Tensor& gradient);

  // The value of a parameter on a rank.
  void load(int rank, size_t p, const at::Tensor& value);

  void clear(int rank, Cleared how);

  // The gradients of a rank are multiplied by a power of two.
  void scale(int rank, double factor);

  // p -= rate * gradient, where there is one; of a rank with a gradient that is not finite nothing
  // moves if `only_if_finite`. `rate` is a power of two.
  void update(int rank, double rate, bool only_if_finite);

  int world_size() const { return static_cast<int>(ranks_.size()); }
  size_t parameter_count() const { return stored_.size(); }
  const at::Tensor& parameter(int rank, size_t p) const { return at(rank).parameters[p]; }
  const at::Tensor& gradient(int rank, size_t p) const { return at(rank).gradients[p]; }

  // Why the numbers so far are not exact in their formats; empty where they are. Infinities and
  // what comes of them are exact; so is a share that rounds in a known way, where no other rank has
  // one of that element.
  const std::string& why_not_exact() const { return why_not_; }

 private:
  struct Rank {
    std::vector<at::Tensor> parameters, gradients;
    std::vector<bool> came;  // since the last average
    std::vector<bool> was_averaged;
    std::vector<Scaling> scaling;
  };
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  void certify(bool holds, const char* why_not);
  at::Tensor average_of(size_t p, const std::vector<int>& ranks, int divisor);
  void average_group(const std::vector<int>& group);

  std::vector<StoredParameter> stored_;
  std::vector<bool> takes_part_;
  std::vector<std::vector<int>> groups_;
  std::vector<bool> has_inputs_;
  Divisor divisor_ = Divisor::group_size;
  std::vector<Rank> ranks_;
  std::string why_not_;
};

}  // namespace lockstep::reference

#include "reference/buckets.h"

#include <algorithm>
#include <set>

namespace lockstep::reference {

namespace {

using TravellingGradients = std::vector<TravellingGradient>;

std::set<int> kinds_of(const TravellingGradients& gradients) {
  std::set<int> kinds;
  for (const auto& each : gradients) kinds.insert(each.kind);
  return kinds;
}

std::vector<size_t> chosen(const std::vector<size_t>& order, auto&& is_it) {
  std::vector<size_t> out;
  std::copy_if(order.begin(), order.end(), std::back_inserter(out), is_it);
  return out;
}

std::vector<size_t> numbers(size_t count, auto&& is_it) {
  std::vector<size_t> out;
  for (size_t i = 0; i < count; ++i)
    if (is_it(i)) out.push_back(i);
  return out;
}

// Where `gradient` is in an order that holds it.
size_t position(const std::vector<size_t>& order, size_t gradient) {
  return static_cast<size_t>(std::find(order.begin(), order.end(), gradient) - order.begin());
}

// Buckets of this order, in two lists: those that their last gradient brought to their cap, and
// those that no gradient did. Without caps no bucket is closed.
struct Filled {
  Buckets closed, open;
};

Filled filled(const TravellingGradients& gradients, const std::vector<size_t>& order,
              const std::vector<int64_t>& caps) {
  Filled out;
  for (const int kind : kinds_of(gradients)) {
    std::vector<size_t> bucket;
    size_t closed_count = 0;
    for (const size_t each : order) {
      if (gradients[each].kind != kind || gradients[each].is_sparse) continue;
      bucket.push_back(each);
      if (caps.empty()) continue;
      const auto cap = caps[std::min(closed_count, caps.size() - 1)];
      if (bytes_in(bucket, gradients) < cap) continue;
      out.closed.push_back(bucket);
      bucket.clear();
      ++closed_count;
    }
    if (!bucket.empty()) out.open.push_back(bucket);
  }
  for (const size_t each : order)
    if (gradients[each].is_sparse) out.closed.push_back({each});
  return out;
}

void append(Buckets& to, const Buckets& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// By its position in `order`, which every bucket has.
void sort_by(Buckets& buckets, const std::vector<size_t>& order, auto&& gradient_of) {
  std::sort(buckets.begin(), buckets.end(), [&](const auto& a, const auto& b) {
    return position(order, gradient_of(a)) < position(order, gradient_of(b));
  });
}

Buckets delayed_buckets(const TravellingGradients& gradients) {
  const auto delayed =
      numbers(gradients.size(), [&](size_t each) { return gradients[each].is_delayed; });
  const auto [sparse, dense] = filled(gradients, delayed, {});
  auto out = sparse;
  append(out, dense);
  return out;
}

}  // namespace

int64_t bytes_in(const std::vector<size_t>& bucket, const TravellingGradients& gradients) {
  int64_t bytes = 0;
  for (const size_t each : bucket) bytes += gradients[each].bytes;
  return bytes;
}

Buckets first_buckets(const TravellingGradients& gradients, const std::vector<int64_t>& caps) {
  const auto order =
      numbers(gradients.size(), [&](size_t each) { return !gradients[each].is_delayed; });
  const auto [closed, open] = filled(gradients, order, caps);
  auto out = closed;
  append(out, open);
  sort_by(out, order, [](const auto& bucket) { return bucket.front(); });
  std::reverse(out.begin(), out.end());
  append(out, delayed_buckets(gradients));
  return out;
}

Buckets rebuilt_buckets(const TravellingGradients& gradients, const std::vector<int64_t>& caps,
                        const std::vector<size_t>& arrivals) {
  const auto never_came = [&](size_t each) {
    return std::find(arrivals.begin(), arrivals.end(), each) == arrivals.end();
  };
  std::vector<size_t> order;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const auto rest = arrivals.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (std::find(rest, arrivals.end(), arrivals[i]) == arrivals.end())
      order.push_back(arrivals[i]);
  }
  for (const size_t each : numbers(gradients.size(), never_came)) order.push_back(each);
  order = chosen(order, [&](size_t each) { return !gradients[each].is_delayed; });
  auto [closed, open] = filled(gradients, order, caps);
  sort_by(closed, order, [](const auto& bucket) { return bucket.back(); });
  sort_by(open, order, [](const auto& bucket) { return bucket.front(); });
  append(closed, open);
  append(closed, delayed_buckets(gradients));
  return closed;
}

}  // namespace lockstep::reference

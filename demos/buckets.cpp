// How gradients become buckets: in reverse order of the parameters at first, and in the order of
// their arrival from the second pass on; and which all-reduces carry them.
//
// Parameter p of n is a vector, and its gradient on rank r is (p + 1) (r + 1) in every element.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::demos::buckets {

namespace {

using reports::counted;

constexpr char kOrderByRank[] = "order_by_rank", kLeftOut[] = "last_bucket_left_out";
constexpr const char *kBackward = "backward", *kAfter = "after backward", *kArrived = "arrived";
constexpr int kPasses = 2;
constexpr int64_t kBytes = 4;  // of an element

enum class Forward { last_first, first_first };

struct Settings {
  int world = 2;
  std::vector<int> sizes{3, 1, 2, 1, 2, 1};
  int cap_bytes = 12;
  Forward forward = Forward::last_first;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 4)),
                      field("sizes", &Settings::sizes, at_most(8, between(1, 8))),
                      field("cap_bytes", &Settings::cap_bytes, between(4, 64)),
                      field("forward", &Settings::forward)};
  }
};
using BucketCase = Staged<Settings>;

std::string name_of_parameter(size_t index) {
  return std::string(1, static_cast<char>('a' + index));
}

// Uses its parameters one after the other, so that their gradients arrive in reverse.
class Chain : public Model {
 public:
  Chain(const std::vector<int>& sizes, bool last_first) : last_first_(last_first) {
    for (size_t p = 0; p < sizes.size(); ++p) {
      weights_.push_back(register_parameter(name_of_parameter(p), torch::ones({sizes[p]})));
      weights_[p].register_hook([this, p](const at::Tensor& gradient) {
        arrived_.push_back(static_cast<int64_t>(p));
        return gradient;
      });
    }
  }
  at::Tensor forward(const at::Tensor& input) override {
    auto sum = input;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const auto p = last_first_ ? weights_.size() - 1 - i : i;
      sum = sum * 1 + (weights_[p] * input * static_cast<double>(p + 1)).sum();
    }
    return sum;
  }
  const std::vector<at::Tensor>& weights() const { return weights_; }
  std::vector<int64_t> take_arrived() { return std::exchange(arrived_, {}); }

 private:
  const bool last_first_;
  std::vector<at::Tensor> weights_;
  std::vector<int64_t> arrived_;
};

// A user's own averaging of gradients in this order, in buckets that are sent once they are full.
void average_by_hand(const BucketCase& c, RankContext& here, const Chain& model,
                     const std::vector<int64_t>& order, int64_t cap_bytes) {
  std::vector<at::Tensor> bucket;
  int64_t bytes = 0;
  for (const auto p : order) {
    bucket.push_back(model.weights()[static_cast<size_t>(p)].grad());
    bytes += bucket.back().numel() * kBytes;
    if (bytes < cap_bytes) continue;
    std::vector<at::Tensor> flat{at::cat(bucket)};
    here.group()->allreduce(flat)->wait();
    int64_t begin = 0;
    for (const auto& gradient : std::exchange(bucket, {})) {
      gradient.copy_(flat[0].narrow(0, begin, gradient.numel()) / c.world.size);
      begin += gradient.numel();
    }
    bytes = 0;
  }
}

void program(const BucketCase& c, RankContext& here) {
  const bool last_first = c.settings.forward == Forward::last_first;
  const bool is_other = c.mistake == kOrderByRank && here.rank() + 1 == c.world.size;
  const auto model = std::make_shared<Chain>(c.settings.sizes, last_first != is_other);
  const auto input = torch::full({1}, here.rank() + 1, at::kFloat);
  const auto replica = c.mistake == kNoMistake
                           ? wrap(here, model, {.bucket_caps_bytes = {c.settings.cap_bytes}})
                           : nullptr;
  for (int pass = 0; pass < kPasses; ++pass) {
    model->zero_grad();
    here.enter(pass, "forward");
    const auto loss = (replica ? replica->forward(input) : model->forward(input)).sum();
    here.enter(pass, kBackward);
    replica ? replica->backward(loss) : loss.backward();
    const auto arrived = model->take_arrived();
    if (!replica)
      average_by_hand(c, here, *model, arrived, c.mistake == kLeftOut ? c.settings.cap_bytes : 1);
    here.enter(pass, kAfter);
    here.record(kArrived, arrived);
    for (size_t p = 0; p < model->weights().size(); ++p)
      here.record(name_of_parameter(p), model->weights()[p].grad());
  }
}

// Exact: whole numbers and halves.
TensorValue gradient(const BucketCase& c, size_t parameter, double input) {
  return scenarios::recorded(torch::full({c.settings.sizes[parameter]},
                                         static_cast<double>(parameter + 1) * input, at::kDouble),
                             at::kFloat);
}

Findings gradients_are_averages(const BucketCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (int pass = 0; pass < kPasses; ++pass)
    for (size_t p = 0; p < c.settings.sizes.size(); ++p) {
      std::vector<TensorValue> own;
      for (int rank = 0; rank < c.world.size; ++rank) own.push_back(gradient(c, p, rank + 1));
      rows.push_back({.row = h.row({pass, kAfter}, name_of_parameter(p)),
                      .expected = {gradient(c, p, (c.world.size + 1) / 2.0)},
                      .explanations = [own] { return Explanations{not_reduced(own)}; }});
    }
  return equal("Every gradient must be the average over the ranks, in whichever bucket it travels",
               rows);
}

// The buckets in force in a pass, and the all-reduces that a rank issued for them.
struct Sent {
  BucketLayout layout;
  std::vector<Collective> all_reduces;
};

Sent sent_in(const History& h, size_t rank, int pass) {
  Sent sent;
  for (const auto& event : h.ranks()[rank].events) {
    if (event.at.step > pass) break;
    if (const auto* layout = std::get_if<BucketLayout>(&event.what)) sent.layout = *layout;
    const auto* issued = std::get_if<Collective>(&event.what);
    if (issued && event.at == Moment{pass, kBackward} && !issued->bucket.empty())
      sent.all_reduces.push_back(*issued);
  }
  return sent;
}

std::string names_in(const BucketLayout& layout, const char* between) {
  std::vector<std::string> all;
  for (const auto& bucket : layout.buckets) all.push_back(joined(bucket.parameters, " "));
  return joined(all, between);
}

Findings each_bucket_is_one_all_reduce(const BucketCase& c, const History& h) {
  for (int pass = 0; pass < kPasses; ++pass)
    for (size_t rank = 0; rank < static_cast<size_t>(c.world.size); ++rank) {
      const auto [layout, all_reduces] = sent_in(h, rank, pass);
      const bool is_known = !layout.buckets.empty();
      bool fits = all_reduces.size() == layout.buckets.size();
      for (size_t b = 0; fits && b < all_reduces.size(); ++b)
        fits = all_reduces[b].elements == layout.buckets[b].elements;
      if (is_known && !fits)
        return {{"Each bucket must be one all-reduce, in the order of the layout",
                 "another_all_reduce", "pass " + std::to_string(pass),
                 "rank " + std::to_string(rank) + " issued " +
                     counted(static_cast<int64_t>(all_reduces.size()), "all-reduce") + " for " +
                     counted(static_cast<int64_t>(layout.buckets.size()), "bucket")}};
    }
  return {};
}

int64_t bytes_of(const BucketCase& c, const BucketLayout::Bucket& bucket) {
  int64_t elements = 0;
  for (const auto& name : bucket.parameters)
    elements += c.settings.sizes.at(static_cast<size_t>(name.front() - 'a'));
  return elements * kBytes;
}

std::string arrival_order(const History& h, int pass) {
  std::vector<std::string> names;
  for (const auto p : as_integers(h.row({pass, kAfter}, kArrived).by_rank.front()))
    names.push_back(name_of_parameter(static_cast<size_t>(p)));
  return joined(names, " ");
}

reports::Picture bricks_of(const BucketCase& c, const History& h) {
  reports::Grid grid{.column_axis = "pass", .columns = {}, .rows = {}};
  std::vector<Sent> passes;
  size_t most = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    passes.push_back(sent_in(h, 0, pass));
    most = std::max(most, passes.back().layout.buckets.size());
    grid.columns.push_back(
        {pass == 0 ? "first pass" : "second pass", {"gradients", "bytes", "sent"}});
  }
  for (size_t b = 0; b < most; ++b) {
    auto& row = grid.rows.emplace_back();
    row.label = {"bucket " + std::to_string(b)};
    for (const auto& [layout, all_reduces] : passes) {
      if (b >= layout.buckets.size() || b >= all_reduces.size()) {
        row.cells.insert(row.cells.end(), 3, {"-"});
        continue;
      }
      row.cells.push_back({joined(layout.buckets[b].parameters, " ")});
      row.cells.push_back({std::to_string(bytes_of(c, layout.buckets[b]))});
      row.cells.push_back({"#" + std::to_string(all_reduces[b].sequence)});
    }
  }
  const auto arrived = arrival_order(h, 0), second = names_in(passes.back().layout, " ");
  return {.title = "Which gradients travel together, and in which all-reduce",
          .caption = "gradients arrive in the order " + arrived + " on rank 0, and the second " +
                     "pass has its buckets in " +
                     (second == arrived ? "that order" : "the order " + second),
          .body = std::move(grid)};
}

DemoStory show(const BucketCase& c, const History& h) {
  const auto first = sent_in(h, 0, 0).layout, second = sent_in(h, 0, kPasses - 1).layout;
  if (first.buckets.empty()) throw NotSeen("no buckets were published", 0);
  int64_t most = 0;
  for (const auto* layout : {&first, &second})
    for (const auto& bucket : layout->buckets) most = std::max(most, bytes_of(c, bucket));
  const auto parameters = static_cast<int64_t>(c.settings.sizes.size());
  DemoStory story;
  story.finding = counted(parameters, "gradient") + " travel in " +
                  counted(static_cast<int64_t>(first.buckets.size()), "all-reduce") +
                  ", the largest of " + std::to_string(most) + " bytes: " + names_in(first, ", ") +
                  "; in the second pass " + names_in(second, ", ") + ".";
  story.pictures = {bricks_of(c, h)};
  story.question = {
      "Parameters a, b, ... have " +
          spaced(std::vector<int64_t>(c.settings.sizes.begin(), c.settings.sizes.end())) +
          " elements of 4 bytes, and a bucket is closed once it has " +
          std::to_string(c.settings.cap_bytes) +
          " bytes. Which gradients are in the first bucket of the first pass?",
      joined(first.buckets.front().parameters, " "),
      "buckets are filled in the order of the parameters and sent in reverse: before the first "
      "pass nobody knows the order in which gradients arrive, and the reverse is the best guess"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "buckets",
       .lesson = "which gradients travel together, in the first pass and from the second on",
       .text =
           "The model adds up vectors a, b, c, ... For the first pass buckets are filled in the "
           "order of the parameters and sent in reverse. The order in which gradients arrive is "
           "the reverse of the "
           "forward's, and the second pass has buckets in that order.",
       .proof = "gradients.match_single_process",
       .meanings = {"number of ranks", "the elements of each parameter",
                    "the bytes that close a bucket",
                    "which parameter the forward uses first: the last one, or the first one"},
       .mistakes = {{kOrderByRank,
                     "the program averages gradients as they arrive, and the last rank's forward "
                     "has another order"},
                    {kLeftOut,
                     "the program has buckets of its own, and does not send the last "
                     "one, which is not full"}},
       .refusal =
           [](const Settings& s) {
             return s.sizes.empty() ? std::string("sizes must name at least one parameter")
                                    : std::string();
           },
       .program = program,
       .checks = {gradients_are_averages, each_bucket_is_one_all_reduce},
       .show = show});
}

}  // namespace lockstep::demos::buckets

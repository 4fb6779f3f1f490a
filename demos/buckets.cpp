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
#include <functional>
#include <map>
#include <utility>

namespace lockstep::demos::buckets {

namespace {

constexpr char kOrderByRank[] = "order_by_rank", kLeftOut[] = "last_bucket_left_out";
constexpr const char *kBackward = "backward", *kAfter = "after backward", *kArrived = "arrived";
const std::string kArrives = "arrives: ";  // a record of each gradient, as it does
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
        if (on_arrival) on_arrival(p);
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
  std::function<void(size_t parameter)> on_arrival;

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
  model->on_arrival = [&](size_t p) {
    here.record(kArrives + name_of_parameter(p), std::vector<int64_t>{});
  };
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
    if (issued && event.at == Moment{pass, kBackward} && issued->bucket)
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
                     counted(all_reduces.size(), "all-reduce") + " for " +
                     counted(layout.buckets.size(), "bucket")}};
    }
  return {};
}

int64_t bytes_of(const BucketCase& c, const std::vector<std::string>& parameters) {
  int64_t elements = 0;
  for (const auto& name : parameters)
    elements += c.settings.sizes.at(static_cast<size_t>(name.front() - 'a'));
  return elements * kBytes;
}

// A pass of rank 0, on an axis of the bytes whose gradients have arrived.
struct Pass {
  Sent sent;
  std::vector<reports::Lanes::Span> arrivals;  // in their order
  std::vector<double> launched;                // by all-reduce
  double end() const { return arrivals.back().to; }
  const reports::Lanes::Span& arrival_of(const std::string& name) const {
    return *std::ranges::find(arrivals, name, &reports::Lanes::Span::text);
  }
  double full(size_t bucket) const {
    double at = 0;
    for (const auto& name : sent.layout.buckets[bucket].parameters)
      at = std::max(at, arrival_of(name).to);
    return at;
  }
  // How many all-reduces leave while gradients are still to come.
  int64_t early() const {
    return std::ranges::count_if(launched, [&](double at) { return at < end(); });
  }
};

Pass pass_of(const BucketCase& c, const History& h, int number) {
  Pass pass{.sent = sent_in(h, 0, number), .arrivals = {}, .launched = {}};
  double bytes = 0;
  for (const auto& event : h.ranks().front().events) {
    if (event.at != Moment{number, kBackward}) continue;
    const auto* seen = std::get_if<Observation>(&event.what);
    const auto* issued = std::get_if<Collective>(&event.what);
    if (seen && seen->name.starts_with(kArrives)) {
      const auto name = seen->name.substr(kArrives.size());
      const double from = std::exchange(bytes, bytes + static_cast<double>(bytes_of(c, {name})));
      pass.arrivals.push_back({from, bytes, name});
    } else if (issued && issued->bucket) {
      pass.launched.push_back(bytes);
    }
  }
  if (pass.arrivals.empty()) throw NotSeen("the arrival of gradients", 0);
  return pass;
}

reports::Picture bricks_of(const Pass& pass, const std::string& title) {
  reports::Lanes lanes{.time_axis = "bytes that have arrived",
                       .lanes = {{{"gradients arrive"}, pass.arrivals}}};
  int64_t waiting = 0;
  for (size_t b = 0; b < pass.launched.size() && b < pass.sent.layout.buckets.size(); ++b) {
    auto& lane = lanes.lanes.emplace_back();
    lane.label = {"bucket " + std::to_string(b) + " leaves as #" +
                  std::to_string(pass.sent.all_reduces[b].sequence)};
    for (const auto& name : pass.sent.layout.buckets[b].parameters) {
      lane.spans.push_back(pass.arrival_of(name));
      lane.spans.back().mark = reports::Mark::filled;
    }
    if (pass.full(b) == pass.launched[b]) continue;
    lane.spans.push_back({pass.full(b), pass.launched[b], "waits", reports::Mark::missing});
    ++waiting;
  }
  const auto all = counted(pass.launched.size(), "all-reduce");
  return {
      .title = title,
      .caption = std::to_string(pass.early()) + " of " + all +
                 (pass.early() == 1 ? " leaves" : " leave") + " while gradients are still to come" +
                 (waiting == 0 ? ""
                               : "; " + counted(waiting, "bucket") +
                                     (waiting == 1 ? " is full and waits" : " are full and wait") +
                                     " for those before"),
      .body = std::move(lanes),
      .key = {{reports::Mark::filled, "a gradient of this bucket, as long as its bytes"},
              {reports::Mark::missing,
               "the bucket is full, and waits: buckets leave in one order on all ranks"}}};
}

DemoStory show(const BucketCase& c, const History& h) {
  const auto first = sent_in(h, 0, 0).layout, second = sent_in(h, 0, kPasses - 1).layout;
  if (first.buckets.empty()) throw NotSeen("no buckets were published", 0);
  int64_t most = 0;
  for (const auto* layout : {&first, &second})
    for (const auto& bucket : layout->buckets)
      most = std::max(most, bytes_of(c, bucket.parameters));
  const auto parameters = static_cast<int64_t>(c.settings.sizes.size());
  DemoStory story;
  story.finding = counted(parameters, "gradient") + " travel in " +
                  counted(first.buckets.size(), "all-reduce") + ", the largest of " +
                  std::to_string(most) + " bytes: " + names_in(first, ", ") +
                  "; in the second pass " + names_in(second, ", ") + ".";
  story.pictures = {
      bricks_of(pass_of(c, h, 0),
                "The first pass: buckets in the reverse order of "
                "the parameters"),
      bricks_of(pass_of(c, h, kPasses - 1), "The second pass: buckets in the order of arrival")};
  story.pictures.back().is_beside = true;
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
           "forward's, and the second pass has buckets in that order: each leaves as it fills, and "
           "travels while the rest is computed, which overlap shows. #0 and the "
           "numbers left out compare and broadcast, and carry no gradients.",
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

#include "harness/invariants/data/batches.h"

#include "harness/base/text.h"
#include "harness/invariants/data/overlaps.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

constexpr double kBitsLeast = 20;  // equal draws of fewer bits may be chance

// How many samples the dataset of both passes has, or at least, where nobody knows.
int64_t samples_at_least(const Pass& a, const Pass& b) {
  int64_t samples = a.length();
  if (samples < 0)
    for (const auto* pass : {&a, &b})
      for (const int64_t index : pass->indices) samples = std::max(samples, index + 1);
  return samples;
}

// How unlikely it is, in bits, that a rank drew these by chance.
double bits_of(const std::vector<int64_t>& indices, int64_t length) {
  return static_cast<double>(indices.size()) *
         std::log2(static_cast<double>(std::max<int64_t>(length, 2)));
}

std::string rank_pair(size_t a, size_t b) {
  return "rank " + std::to_string(a) + " and rank " + std::to_string(b);
}

struct Equal {
  double bits = 0;
  size_t drawn = 0, handed = 0, compared = 0;
  std::optional<size_t> first;
};

// The batches of a pass that two ranks have in common. Equal indices are equal samples where the
// dataset is the same one.
Equal equal_batches(const Pass& a, const Pass& b) {
  Equal is;
  const bool same_samples =
      (a.is_sharded() && b.is_sharded() && a.length() == b.length()) || have_one_dataset(a, b);
  const auto samples = samples_at_least(a, b);
  const auto drawn = std::min(a.batch_ends.size(), b.batch_ends.size());
  const auto handed = std::min(a.batches.size(), b.batches.size());
  for (size_t number = 0; number < std::max(drawn, handed); ++number) {
    bool is_equal = false;
    if (same_samples && number < drawn) {
      const auto of = a.batch(number);
      is_equal = !of.empty() && of == b.batch(number);
      is.bits += is_equal ? bits_of(of, samples) : 0;
      is.drawn += is_equal ? 1 : 0;
    }
    if (number < handed && !a.batches[number].print.empty() &&
        a.batches[number].print == b.batches[number].print) {
      ++is.handed;
      is_equal = true;
    }
    if (is_equal && !is.first) is.first = number;
  }
  is.compared = std::max(same_samples ? drawn : 0, handed);
  return is;
}

}  // namespace

SameBatches same_batches(const PassRow& row) {
  SameBatches out;
  for (size_t a = 0; a < row.by_rank.size(); ++a)
    for (size_t b = a + 1; b < row.by_rank.size(); ++b) {
      const auto is = equal_batches(row.by_rank[a], row.by_rank[b]);
      out.batches = std::max(out.batches, is.compared);
      // A batch that holds the same by chance is one of many. So is one with which a sampler of
      // the program's own pads each of its groups.
      const bool may_pad = row.is_sharded() && !row.is_of_distributed_sampler();
      const bool by_indices = is.bits >= kBitsLeast && (!may_pad || 4 * is.drawn >= is.compared);
      const bool by_content = is.handed > 0 && is.handed == is.compared;
      if (out.finding || !(by_indices || by_content)) continue;
      const auto count = std::max(is.drawn, is.handed);
      const auto samples = row.by_rank[a].batch(*is.first);
      out.finding =
          Finding{"", "same_batches", row.place() + ", batch " + std::to_string(*is.first),
                  row.place() + ": " + rank_pair(a, b) +
                      (by_indices ? " drew the same samples in the same order in "
                                  : " were handed the same values in ") +
                      std::to_string(count) + " of " + std::to_string(is.compared) +
                      " batches, first in batch " + std::to_string(*is.first) +
                      (samples.empty() ? "" : ": " + listed(samples))};
    }
  return out;
}

Details draws_of(const PassRow& row) {
  Details draws;
  constexpr size_t kRanksMost = 8;
  for (size_t rank = 0; rank < std::min(row.by_rank.size(), kRanksMost); ++rank) {
    const auto& indices = row.by_rank[rank].indices;
    draws.push_back("rank " + std::to_string(rank) + " drew " + counted(indices.size(), "sample") +
                    ": " + listed(indices));
  }
  return draws;
}

std::optional<Finding> never_drawn(const std::vector<PassRow>& rows) {
  static const std::set<std::string> kKnown{"RandomSampler", "SequentialSampler"};
  struct Draws {
    std::set<int64_t> drawn;
    size_t passes = 0;
    double expected = 0;  // samples that no pass draws, by chance
    const PassRow* last = nullptr;
  };
  std::map<std::pair<std::string, int64_t>, Draws> all;
  for (const auto& row : rows) {
    const auto& first = row.by_rank.front();
    const auto length = first.length();
    const bool is_known = row.is_sharded() || kKnown.contains(first.is->text("sampler"));
    if (length <= 0 || !is_known || repeats_on_purpose(row) || !row.all(&Pass::trains) ||
        !row.all_whole())
      continue;
    const auto of = first.is->text("of");  // of several loaders that are made anew
    auto& draws = all[{of.empty() ? row.source : of, length}];
    std::set<int64_t> here;
    for (const auto& pass : row.by_rank) here.insert(pass.indices.begin(), pass.indices.end());
    const auto missed = static_cast<double>(length) - static_cast<double>(here.size());
    // A tail of an order that never changes is the same in every pass.
    if (first.is->truth("shuffle") || first.is->text("sampler") == "RandomSampler")
      draws.expected =
          draws.passes == 0 ? missed : draws.expected * missed / static_cast<double>(length);
    draws.drawn.insert(here.begin(), here.end());
    ++draws.passes;
    draws.last = &row;
  }
  for (const auto& [key, draws] : all) {
    const auto never = key.second - static_cast<int64_t>(draws.drawn.size());
    if (draws.passes < 2 || never <= 0 || draws.expected > 1e-4) continue;
    std::vector<int64_t> samples;
    for (int64_t index = 0; index < key.second && samples.size() < 1000; ++index)
      if (!draws.drawn.contains(index)) samples.push_back(index);
    return Finding{"", "never_drawn", key.first,
                   key.first + ": no rank drew " + std::to_string(never) + " of " +
                       std::to_string(key.second) + " samples in any of " +
                       std::to_string(draws.passes) + " passes: " + listed(samples)};
  }
  return {};
}

std::optional<Finding> repeated_by_workers(const PassRow& row) {
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto& pass = row.by_rank[rank];
    const auto workers =
        static_cast<size_t>(std::max<int64_t>(0, pass.is->whole("workers").value_or(0)));
    if (workers < 2 || !pass.is->truth("iterable")) continue;
    std::set<std::string> prints;  // one for each round of the workers
    const auto rounds = pass.batches.size() / workers;
    bool is_repeated = true;
    for (size_t at = 0; at < rounds * workers && is_repeated; ++at) {
      const auto& print = pass.batches[at].print;
      is_repeated = !print.empty() && print == pass.batches[at / workers * workers].print;
      prints.insert(print);
    }
    if (!is_repeated || prints.size() < 2) continue;
    return Finding{"", "repeated_by_workers", row.place(),
                   row.place() + ": each of " + std::to_string(workers) + " workers of rank " +
                       std::to_string(rank) + " dealt the same batches, in " +
                       std::to_string(rounds) + " of " + std::to_string(rounds) +
                       " rounds, so that it trains on every sample as often: split the stream by "
                       "get_worker_info() too"};
  }
  return {};
}

bool divides_batches(const RecordedRun& run) {
  // Inputs of forwards of each model, by rank; and models of which some got whole batches.
  std::map<std::string, std::vector<std::vector<std::string>>> parts;
  std::set<std::string> whole;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records)
      if (const auto* fact = fact_in(record, fact::kPart)) {
        if (fact->truth("whole")) {
          whole.insert(fact->text("model"));
          continue;
        }
        auto& of_model = parts[fact->text("model")];
        of_model.resize(run.ranks.size());
        of_model[rank].push_back(fact->text("print"));
      }
  // A model that gets whole batches alone, or the same on all ranks, gets no parts: another one may
  // have crops of its own.
  if (std::ranges::any_of(whole, [&](const auto& model) { return !parts.contains(model); }))
    return false;
  return !parts.empty() && std::ranges::all_of(parts, [](const auto& model) {
    const auto& by_rank = model.second;
    return std::ranges::none_of(by_rank, &std::vector<std::string>::empty) &&
           std::ranges::any_of(by_rank,
                               [&](const auto& of_rank) { return of_rank != by_rank.front(); });
  });
}

SameLosses same_losses(const RecordedRun& run) {
  struct Losses {
    std::vector<std::string> by_rank;
    Moment at;
    bool counts = true;
  };
  std::map<std::pair<std::string, size_t>, Losses> all;  // by model and number of its backward
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto& is = run.ranks[rank];
    std::set<int> preceded;  // steps in whose forward a collective of the program's own ran
    for (const auto& event : is.history.events)
      if (const auto* sent = std::get_if<Collective>(&event.what);
          sent && event.at.phase == phase::kForward && !sent->op.starts_with("ddp_"))
        preceded.insert(event.at.step);
    std::map<std::string, size_t> counts;
    for (const auto& record : is.records) {
      const auto* fact = fact_in(record, fact::kBackward);
      if (!fact) continue;
      const auto kind = fact->text("kind");
      if (kind == "no_sync" || kind == "local")
        return {};  // an invariant of its own looks at gradients
      const auto model = fact->text("model");
      auto& losses = all[{model, counts[model]++}];
      const auto loss = fact->values.find("loss");
      losses.at = record.at;
      losses.by_rank.resize(run.ranks.size());
      if (kind == "bare" || loss == fact->values.end() || !loss->is_number_float() ||
          preceded.contains(record.at.step))
        losses.counts = false;
      else
        losses.by_rank[rank] = loss->dump();
    }
  }
  SameLosses out;
  std::set<std::string> values;
  const Losses* first = nullptr;
  for (const auto& [key, losses] : all) {
    const bool is_whole = std::none_of(losses.by_rank.begin(), losses.by_rank.end(),
                                       [](const auto& text) { return text.empty(); });
    if (!losses.counts || !is_whole) continue;
    ++out.backwards;
    if (!all_alike(losses.by_rank)) return {.finding = {}, .at = {}, .backwards = out.backwards};
    values.insert(losses.by_rank.front());
    if (!first || comes_before(losses.at, first->at)) first = &losses;
  }
  // A loss that never changes says nothing of its batch.
  if (!first || values.size() < 2) return out;
  out.at = first->at;
  out.finding =
      Finding{"", "same_losses", "step " + std::to_string(first->at.step) + ", backward",
              "the loss of every backward was the same on all ranks, bit for bit, in " +
                  counted(out.backwards, "backward") + ", first " + first->by_rank.front() +
                  ": all ranks train on one batch, whatever feeds them"};
  return out;
}

}  // namespace lockstep::recorded

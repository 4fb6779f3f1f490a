#include "harness/invariants/data/overlaps.h"

#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// True if the ranks drew together about as many samples as the dataset has, from no sampler of
// PyTorch that draws at random, and more of each other's than padding makes.
bool is_meant_to_split(const PassRow& row, int64_t length, size_t shared) {
  static const std::set<std::string> kDrawAtRandom{"RandomSampler", "WeightedRandomSampler"};
  size_t batch = 1;
  for (const auto& pass : row.by_rank)
    for (size_t number = 0; number < pass.batch_ends.size(); ++number)
      batch = std::max(batch, pass.batch(number).size());
  const auto drawn = row.draws();
  const auto all = static_cast<size_t>(length);
  constexpr size_t kSharedLeast = 8;
  return row.all_whole() && 8 * std::max(drawn, all) <= 9 * std::min(drawn, all) &&
         shared >= kSharedLeast && shared >= batch * row.by_rank.size() &&
         !kDrawAtRandom.contains(row.by_rank.front().is->text("sampler"));
}

// True if every rank draws each of its parts of the dataset without a repeat, and repeats samples
// in the part that follows: a part of an order of its own, and then one of another order. A rank
// that drew whole orders would repeat nothing so soon.
bool splits_own_orders(const PassRow& row, int64_t length, int64_t share) {
  constexpr int64_t kShareLeast = 16, kRepeatsLeast = 4;
  const auto world = static_cast<int64_t>(row.by_rank.size());
  if (share < kShareLeast || length % world != 0) return false;
  return std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Pass& pass) {
    if (static_cast<int64_t>(pass.indices.size()) < 2 * share) return false;
    const auto part = [&](int64_t number) {
      const auto begin = pass.indices.begin() + number * share;
      return std::set<int64_t>(begin, begin + share);
    };
    const auto one = part(0), other = part(1);
    const auto repeats =
        std::count_if(one.begin(), one.end(), [&](int64_t index) { return other.contains(index); });
    return static_cast<int64_t>(one.size()) == share &&
           static_cast<int64_t>(other.size()) == share && repeats >= kRepeatsLeast;
  });
}

// True for a sampler of the program's own that splits by rank, and of which ranks share more than
// the padding of groups makes: halves of two orders have a half of each half in common.
bool splits_unlike_orders(const PassRow& row, int64_t length, size_t shared) {
  return is_meant_to_split(row, length, shared) && 8 * static_cast<int64_t>(shared) >= length;
}

// How many samples a rank drew before its last batch, which may be one that all ranks get as many
// by.
size_t before_the_last_batch(const Pass& pass) {
  const auto& ends = pass.batch_ends;
  return ends.size() > 1 ? ends[ends.size() - 2] : pass.indices.size();
}

// True for a batch sampler that knows the ranks and pads what it splits, each bucket of lengths
// say: the ranks repeat some samples and leave out none that other passes draw. Orders of each
// rank's own leave out many, and the whole dataset on each rank repeats all.
bool is_padded(const PassRow& row, const std::vector<PassRow>& rows) {
  if (!row.by_rank.front().is->truth("batches_split")) return false;
  std::set<int64_t> drawn, ever;
  for (const auto& pass : row.by_rank) drawn.insert(pass.indices.begin(), pass.indices.end());
  for (const auto& other : rows)
    for (const auto& pass : other.by_rank)
      if (other.source == row.source) ever.insert(pass.indices.begin(), pass.indices.end());
  return drawn.size() == ever.size() && row.draws() < 2 * drawn.size();
}

}  // namespace

std::optional<DrawnByOthers> overlapping_draws(const std::vector<PassRow>& rows) {
  std::optional<DrawnByOthers> overlap;
  for (const auto& row : rows) {
    const auto& first = row.by_rank.front();
    int64_t length = first.length();
    if (length < 0)  // of which all that was drawn says something
      for (const auto& pass : row.by_rank)
        for (const int64_t index : pass.indices) length = std::max(length, index + 1);
    const auto share = length / static_cast<int64_t>(row.by_rank.size());
    // A sampler that knows the ranks is judged as a partition where the length is known.
    const bool is_known = row.is_sharded() && (first.length() >= 0 || !deals_once(row));
    if (is_known || is_padded(row, rows) || !row.all(&Pass::trains) || share <= 0) continue;
    std::map<int64_t, size_t> holders;
    std::vector<int64_t> shared;
    bool is_distinct = true;
    const bool is_padded_up = static_cast<int64_t>(row.draws()) > length;
    for (size_t rank = 0; rank < row.by_rank.size() && is_distinct; ++rank) {
      const auto& pass = row.by_rank[rank];
      is_distinct = have_one_dataset(first, pass);
      const auto own = is_padded_up ? before_the_last_batch(pass) : pass.indices.size();
      const auto count = std::min<size_t>(own, static_cast<size_t>(share));
      for (size_t at = 0; at < count && is_distinct; ++at) {
        const auto [found, is_new] = holders.try_emplace(pass.indices[at], rank);
        if (!is_new && found->second == rank) is_distinct = false;  // it draws with repeats
        if (!is_new && found->second != rank) shared.push_back(pass.indices[at]);
      }
    }
    if (!is_distinct || shared.empty()) continue;
    const bool is_split = row.is_sharded() ? splits_unlike_orders(row, length, shared.size())
                                           : is_meant_to_split(row, length, shared.size()) ||
                                                 splits_own_orders(row, length, share);
    if ((overlap || row.is_sharded()) && !is_split) continue;
    const auto sampler = first.is->text("sampler");
    overlap =
        DrawnByOthers{{"", "overlapping_draws", row.place(),
                       row.place() + ": ranks drew " + counted(shared.size(), "sample") +
                           " of each other's before the first order of " + std::to_string(length) +
                           " was over: its " + (sampler == "NoneType" ? "batch sampler" : sampler) +
                           (row.is_sharded() ? "" : " does not know the ranks, or") +
                           " splits an order of each rank's own: " + listed(shared)},
                      first.last,
                      is_split};
    if (is_split) break;
  }
  return overlap;
}

bool deals_once(const PassRow& row) {
  const auto& first = row.by_rank.front();
  const auto times = first.is->whole("repeats").value_or(1);
  return times <= 1 || (times % static_cast<int64_t>(row.by_rank.size()) != 0 &&
                        std::ranges::all_of(row.by_rank, [&](const Pass& pass) {
                          return pass.indices == first.indices;
                        }));
}

std::optional<Finding> repeats_own_orders(const PassRow& row) {
  constexpr size_t kSharedLeast = 8;
  const auto& first = row.by_rank.front();
  const auto times = first.is->whole("repeats").value_or(1);
  const auto world = static_cast<int64_t>(row.by_rank.size());
  // Whole orders, one behind the other, repeat each sample far from where it was.
  const bool is_of_one_order = static_cast<int64_t>(row.draws()) <= first.length() + world * times;
  if (times <= 1 || !row.is_sharded() || !row.all_whole() || !is_of_one_order) return {};
  std::map<int64_t, size_t> places;  // of the first rank
  for (size_t at = 0; at < first.indices.size(); ++at) places.try_emplace(first.indices[at], at);
  size_t shared = 0, apart = 0;
  for (size_t rank = 1; rank < row.by_rank.size(); ++rank) {
    std::set<int64_t> seen;
    const auto& indices = row.by_rank[rank].indices;
    for (size_t at = 0; at < indices.size(); ++at) {
      const auto found = places.find(indices[at]);
      if (found == places.end() || !seen.insert(indices[at]).second) continue;
      ++shared;
      const auto distance = std::max(at, found->second) - std::min(at, found->second);
      apart += distance > static_cast<size_t>(times) ? 1 : 0;
    }
  }
  if (shared < kSharedLeast || 2 * apart < shared) return {};
  return Finding{"",
                 "overlapping_draws",
                 row.place(),
                 row.place() + ": its " + first.is->text("sampler") + " deals each sample " +
                     std::to_string(times) +
                     " times, to ranks that lie side by side, and ranks drew " +
                     std::to_string(apart) + " of " + counted(shared, "sample") +
                     " that they share with rank 0 elsewhere in their orders: each rank splits an "
                     "order of its own",
                 {Cause{"a random generator of the sampler that has another state on each rank: "
                        "seed it with the epoch alone"}}};
}

bool repeats_on_purpose(const PassRow& row) {
  const auto& first = *row.by_rank.front().is;
  if (first.whole("repeats").value_or(1) > 1) return true;
  if (row.is_of_distributed_sampler()) return false;
  return std::any_of(row.by_rank.begin(), row.by_rank.end(), [](const Pass& pass) {
    const std::set<int64_t> distinct(pass.indices.begin(), pass.indices.end());
    return distinct.size() + 1 < pass.indices.size();  // one may be padding
  });
}

std::optional<Finding> shared_samples(const PassRow& row) {
  constexpr size_t kSharedLeast = 8;  // fewer may be padding
  if (row.is_sharded() || !row.all_whole()) return {};
  std::vector<std::set<std::string>> samples;
  std::vector<double> known;  // which part of the samples has a fingerprint
  for (const auto& pass : row.by_rank) {
    if (!samples.empty() && have_one_dataset(row.by_rank.front(), pass)) return {};
    auto& is = samples.emplace_back();
    size_t all = 0, listed_here = 0;
    for (const auto& batch : pass.batches) {
      is.insert(batch.samples.begin(), batch.samples.end());
      listed_here += batch.samples.size();
      all += batch.count;
    }
    if (is.empty() || is.size() < listed_here) return {};  // a rank that repeats samples draws them
    known.push_back(static_cast<double>(is.size()) / static_cast<double>(all));
  }
  for (size_t a = 0; a < samples.size(); ++a)
    for (size_t b = a + 1; b < samples.size(); ++b) {
      const auto shared = static_cast<size_t>(
          std::count_if(samples[a].begin(), samples[a].end(),
                        [&](const auto& sample) { return samples[b].contains(sample); }));
      const auto expected = known[b] * static_cast<double>(samples[a].size());  // were all shared
      const auto part = static_cast<double>(shared) / expected;
      if (shared < kSharedLeast || 2 * part * static_cast<double>(samples.size()) < 1) continue;
      return Finding{
          "",
          "shared_samples",
          row.place(),
          row.place() + ": " + ranks_text({static_cast<int>(a), static_cast<int>(b)}) +
              " were handed " + counted(shared, "sample") + " in common, of " +
              counted(samples[a].size(), "sample") + " that are known of rank " +
              std::to_string(a) + ": what each rank lists or streams is no part of its own",
          {Cause{"files or shards that each rank shuffles on its own before it takes "
                 "its part, or that nothing splits: shuffle with one seed, then split"}}};
    }
  return {};
}

}  // namespace lockstep::recorded

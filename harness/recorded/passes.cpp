#include "harness/recorded/passes.h"

#include "harness/base/text.h"

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

bool is_source(const std::string& name) {
  return is_loader(name) || is_sampler(name);
}

// The samples of a batch that no sampler numbers: how many, and fingerprints of the first.
void read_samples(const Fact& fact, HandedBatch& batch) {
  const auto rows = fact.values.find("rows");
  if (rows == fact.values.end() || !rows->is_array() || rows->empty()) return;
  if (!(*rows)[0].is_number_integer()) return;
  batch.samples = fact.texts("rows");
  batch.count = std::max(batch.samples.size(),
                         static_cast<size_t>(std::max<int64_t>(0, (*rows)[0].get<int64_t>())));
}

HandedBatch batch_in(const Fact& fact) {
  HandedBatch batch{.print = fact.text("print"), .first_print = ""};
  read_samples(fact, batch);
  const auto row = fact.values.find("row");
  if (row == fact.values.end() || !row->is_array() || row->size() != 2) return batch;
  if (!(*row)[0].is_number_integer() || !(*row)[1].is_string()) return batch;
  batch.first_index = (*row)[0].get<int64_t>();
  batch.first_print = (*row)[1].get<std::string>();
  return batch;
}

// How many samples a pass of one rank has by its length and its sampler; -1 where that is unknown.
int64_t samples_in(const Pass& pass) {
  auto samples = pass.length();
  if (samples < 0) return -1;
  if (const auto replicas = pass.is->whole("replicas"); replicas && *replicas > 0)
    samples = pass.is->truth("drops") ? samples / *replicas
                                      : samples / *replicas + (samples % *replicas > 0 ? 1 : 0);
  if (const auto batch = pass.is->whole("batch_size"); pass.is->truth("drops_batch") && batch > 0)
    samples -= samples % *batch;
  return samples;
}

// Reads one rank's records. A loader trains where a backward comes after its batch: the one that
// dealt last, and each that deals again and again between backwards. One that came to its end
// before does not where backwards ran before anything dealt: the program feeds its training itself.
class PassReader {
 public:
  explicit PassReader(const Rank& rank) : rank_(rank) {
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kBatch)) has_batches_ = true;
  }

  Passes read() {
    for (size_t at = 0; at < rank_.records.size(); ++at) {
      const auto& record = rank_.records[at];
      if (const auto* drawn = std::get_if<Drawn>(&record.what)) take_drawn(*drawn, at);
      if (const auto* fact = std::get_if<Fact>(&record.what)) take_fact(*fact, at);
    }
    return std::move(passes_);
  }

 private:
  Pass* current(const std::string& source) {
    const auto found = passes_.find(source);
    return found == passes_.end() ? nullptr : &found->second.back();
  }

  void dealt(const std::string& source) {
    last_ = source;
    dealt_.insert(source);
  }

  void take_drawn(const Drawn& drawn, size_t at) {
    auto* pass = current(drawn.name);
    if (!pass) return;
    pass->indices.insert(pass->indices.end(), drawn.indices.begin(), drawn.indices.end());
    pass->batch_ends.push_back(pass->indices.size());
    touch(*pass, at);
    if (!has_batches_ || is_sampler(drawn.name)) dealt(drawn.name);
  }

  void touch(Pass& pass, size_t at) {
    pass.end = at;
    pass.last = rank_.records[at].at;
  }

  void take_fact(const Fact& fact, size_t at) {
    const std::string exhausted = " exhausted";
    if (fact.name == fact::kBackward) {
      has_backward_ = true;
      return take_backward();
    }
    if (is_optimizer(fact.name) && !std::exchange(has_backward_, false))
      return take_backward();  // that no recorder sees, since nothing is wrapped
    if (fact.name == fact::kBatch) {
      const auto source = fact.text("loader");
      if (auto* pass = current(source)) {
        pass->batches.push_back(batch_in(fact));
        touch(*pass, at);
        dealt(source);
      }
      return;
    }
    if (!is_source(fact.name)) return;
    if (!fact.name.ends_with(exhausted)) {
      passes_[fact.name].push_back(
          {.is = &fact, .begin = at, .end = at, .last = rank_.records[at].at});
      paired_.erase(fact.name);
    } else if (auto* pass = current(fact.name.substr(0, fact.name.size() - exhausted.size()))) {
      pass->is_exhausted = true;
    }
  }

  void take_backward() {
    if (last_.empty()) feeds_itself_ = true;
    for (const auto& source : dealt_) {
      auto* pass = current(source);
      if (!pass || (feeds_itself_ && pass->is_exhausted)) continue;
      if (source == last_ || (!pass->is_exhausted && ++paired_[source] > 1)) pass->trains = true;
    }
    if (dealt_.empty() && !last_.empty() && !feeds_itself_)
      if (auto* pass = current(last_)) pass->trains = true;
    dealt_.clear();
  }

  const Rank& rank_;
  bool has_batches_ = false, feeds_itself_ = false;
  bool has_backward_ = false;  // since the last update
  Passes passes_;
  std::string last_;                   // the source that dealt last
  std::set<std::string> dealt_;        // since the last backward
  std::map<std::string, int> paired_;  // backwards between which it dealt beside another one
};

// Names the kind of a source: "loader" or "sampler", of which sampler, and what for.
std::string kind_of(const std::string& source, const std::vector<Pass>& passes) {
  const auto& first = passes.front();
  const bool trains =
      std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.trains; });
  return source.substr(0, source.find(' ')) + " " + first.is->text("sampler") +
         (first.is_sharded() ? " split" : "") + (trains ? " trains" : "");
}

// The sources of each kind, in the order in which the rank first used them.
std::map<std::string, std::vector<std::string>> kinds_in(const Passes& passes) {
  std::vector<std::string> sources;
  for (const auto& [source, of] : passes) sources.push_back(source);
  std::sort(sources.begin(), sources.end(), [&](const auto& a, const auto& b) {
    return passes.at(a).front().begin < passes.at(b).front().begin;
  });
  std::map<std::string, std::vector<std::string>> kinds;
  for (const auto& source : sources) kinds[kind_of(source, passes.at(source))].push_back(source);
  return kinds;
}

// Names the sources of all ranks as the first rank does. Ranks number them alike unless some have
// sources of their own, such as rank 0 alone for an evaluation: then those of one kind are paired.
void name_alike(std::vector<Passes>& all) {
  const auto& first = all.front();
  const auto kinds = kinds_in(first);
  for (auto& passes : all) {
    if (passes.size() == first.size()) continue;
    Passes named;
    for (const auto& [kind, sources] : kinds_in(passes)) {
      const auto found = kinds.find(kind);
      for (size_t number = 0; found != kinds.end() && number < sources.size(); ++number)
        if (number < found->second.size())
          named[found->second[number]] = std::move(passes[sources[number]]);
    }
    passes = std::move(named);
  }
}

}  // namespace

bool Pass::is_whole() const {
  if (is_exhausted) return true;
  const auto of_loader = is->whole("batches");
  if (of_loader && *of_loader > 0)
    return static_cast<int64_t>(std::max(batch_ends.size(), batches.size())) >= *of_loader;
  const auto all = samples_in(*this);
  return all > 0 && static_cast<int64_t>(indices.size()) >= all;
}

std::vector<int64_t> Pass::batch(size_t number) const {
  if (number >= batch_ends.size()) return {};
  const auto from = number == 0 ? 0 : batch_ends[number - 1];
  return {indices.begin() + static_cast<std::ptrdiff_t>(from),
          indices.begin() + static_cast<std::ptrdiff_t>(batch_ends[number])};
}

bool PassRow::all(bool Pass::*member) const {
  return std::all_of(by_rank.begin(), by_rank.end(), [&](const Pass& p) { return p.*member; });
}

bool PassRow::is_of_distributed_sampler() const {
  return by_rank.front().is->text("sampler") == "DistributedSampler";
}

size_t PassRow::draws() const {
  size_t all = 0;
  for (const auto& pass : by_rank) all += pass.indices.size();
  return all;
}

bool PassRow::all_whole() const {
  return std::all_of(by_rank.begin(), by_rank.end(), [](const Pass& p) { return p.is_whole(); });
}

bool PassRow::is_sharded() const {
  return std::all_of(by_rank.begin(), by_rank.end(), [](const Pass& p) { return p.is_sharded(); });
}

Passes passes_of(const Rank& rank) {
  return PassReader(rank).read();
}

std::vector<PassRow> pass_rows(const RecordedRun& run) {
  std::vector<Passes> all;
  for (const auto& rank : run.ranks) all.push_back(passes_of(rank));
  name_alike(all);
  std::vector<PassRow> rows;
  for (const auto& [source, passes] : all.front())
    for (size_t number = 0; number < passes.size(); ++number) {
      PassRow row{.source = source, .number = number};
      for (auto& of_rank : all)
        if (const auto found = of_rank.find(source);
            found != of_rank.end() && number < found->second.size())
          row.by_rank.push_back(found->second[number]);
      if (row.by_rank.size() == all.size()) rows.push_back(std::move(row));
    }
  return rows;
}

bool trains_shuffled(const PassRow& row) {
  return row.is_sharded() && row.all(&Pass::trains) && row.by_rank.front().is->truth("shuffle");
}

bool have_one_dataset(const Pass& a, const Pass& b) {
  if (a.length() != b.length()) return false;
  if (&a == &b) return true;
  if (const auto print = a.is->text("fingerprint"); !print.empty())
    return b.is->text("fingerprint") == print;
  std::map<int64_t, std::string> samples;
  for (const auto& batch : a.batches)
    if (batch.first_index >= 0) samples[batch.first_index] = batch.first_print;
  return std::any_of(b.batches.begin(), b.batches.end(), [&](const HandedBatch& batch) {
    const auto found = samples.find(batch.first_index);
    return found != samples.end() && found->second == batch.first_print;
  });
}

}  // namespace lockstep::recorded

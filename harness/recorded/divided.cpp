#include "harness/recorded/divided.h"

#include <algorithm>
#include <cstring>

namespace lockstep::recorded {

namespace {

constexpr int64_t kExtentMost = int64_t{1} << 40;

std::optional<std::vector<int64_t>> whole_numbers(const Json& json) {
  if (!json.is_array()) return {};
  std::vector<int64_t> numbers;
  for (const auto& each : json) {
    if (!each.is_number_integer()) return {};
    const auto number = each.get<int64_t>();
    if (number < 0 || number > kExtentMost) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// [name, whole shape, offset, is flat]
std::optional<std::pair<std::string, Shard>> shard_in(const Json& json) {
  const bool has_form =
      json.is_array() && json.size() == 4 && json[0].is_string() && json[3].is_boolean();
  if (!has_form) return {};
  const auto whole = whole_numbers(json[1]), offset = whole_numbers(json[2]);
  if (!whole || !offset) return {};
  const bool is_flat = json[3].get<bool>();
  if (offset->size() != (is_flat ? 1 : whole->size())) return {};
  return std::pair{one_line(json[0].get<std::string>()), Shard{*whole, *offset, is_flat}};
}

bool fits(const Shard& shard, const std::vector<int64_t>& shape) {
  if (shard.is_flat) {
    const auto count = count_of(shape), all = count_of(shard.whole);
    return count >= 0 && all >= 0 && shard.offset[0] <= all - count;
  }
  if (shape.size() != shard.whole.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 0 || shard.offset[i] > shard.whole[i] - shape[i]) return false;
  return true;
}

// Copies a part into its place. Rows of the last dimension are contiguous in both.
void put_part(TensorValue& whole, const Shard& shard, const TensorValue& part, size_t bytes_each) {
  const auto copy = [&](int64_t to, int64_t from, int64_t count) {
    std::memcpy(whole.bytes.data() + static_cast<size_t>(to) * bytes_each,
                part.bytes.data() + static_cast<size_t>(from) * bytes_each,
                static_cast<size_t>(count) * bytes_each);
  };
  const auto count = count_of(part.shape);
  if (count <= 0) return;
  if (shard.is_flat || part.shape.empty())
    return copy(shard.is_flat ? shard.offset[0] : 0, 0, count);
  const size_t last = part.shape.size() - 1;
  std::vector<int64_t> at(part.shape.size(), 0);
  for (int64_t from = 0; from < count; from += part.shape[last]) {
    int64_t to = 0;
    for (size_t i = 0; i <= last; ++i) to = to * shard.whole[i] + shard.offset[i] + at[i];
    copy(to, from, part.shape[last]);
    for (size_t i = last; i-- > 0;) {
      if (++at[i] < part.shape[i]) break;
      at[i] = 0;
    }
  }
}

std::optional<size_t> place_of_tensor(const TensorList& list, const std::string& name) {
  const auto found = std::find_if(list.tensors.begin(), list.tensors.end(),
                                  [&](const auto& each) { return each.name == name; });
  if (found == list.tensors.end()) return {};
  return static_cast<size_t>(found - list.tensors.begin());
}

// One tensor from the parts of all ranks.
struct Assembly {
  TensorValue value;
  bool is_missing = false;
};
std::optional<Assembly> assembled(const std::vector<const Digests*>& by_rank,
                                  const std::vector<Shards>& shards,
                                  const TensorList::Entry& wanted) {
  Assembly is{{wanted.dtype, wanted.shape, {}}, true};
  const auto bytes = tensor_bytes(wanted.dtype, wanted.shape);
  if (bytes < 0) return {};
  std::map<Shard, std::vector<int64_t>> extents;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto place = place_of_tensor(*by_rank[rank]->list, wanted.name);
    if (!place || by_rank[rank]->elements.empty()) continue;
    const auto& part = by_rank[rank]->elements[*place];
    if (by_rank[rank]->values[*place].is_missing()) continue;
    const auto found = shards[rank].find(wanted.name);
    const Shard shard =
        found == shards[rank].end() ? Shard{wanted.shape, {0}, true} : found->second;
    const auto each = traits_of(wanted.dtype).bytes;
    if (static_cast<int64_t>(part.bytes.size()) != count_of(part.shape) * each ||
        part.shape != by_rank[rank]->list->tensors[*place].shape)
      return {};  // a sample of its elements cannot be put together
    if (shard.whole != wanted.shape || part.dtype != wanted.dtype || !fits(shard, part.shape))
      return {};
    if (is.is_missing) is.value.bytes.resize(static_cast<size_t>(bytes));
    is.is_missing = false;
    put_part(is.value, shard, part, static_cast<size_t>(traits_of(wanted.dtype).bytes));
    extents[shard] = std::max(extents[shard], part.shape);  // another rank may hold nothing of it
  }
  if (!is.is_missing && elements_of(extents) < count_of(wanted.shape)) return {};
  return is;
}

}  // namespace

std::map<std::string, Shards> shards_of(const Rank& rank) {
  std::map<std::string, Shards> all;
  for (const auto& record : rank.records) {
    const auto* fact = fact_in(record, fact::kShards);
    if (!fact) continue;
    const auto tensors = fact->values.find("tensors");
    if (tensors == fact->values.end() || !tensors->is_array()) continue;
    auto& shards = all[fact->text("of")];
    for (const auto& each : *tensors)
      if (auto shard = shard_in(each)) shards.insert(std::move(*shard));
  }
  return all;
}

std::shared_ptr<const Shards> shards_for(const std::map<std::string, Shards>& all,
                                         const TensorList& list, size_t rank) {
  auto shards = std::make_shared<Shards>();
  if (const auto found = all.find(list.of); found != all.end()) *shards = found->second;
  const Shard own{{}, {static_cast<int64_t>(rank)}, true};
  for (const auto& tensor : list.tensors) {
    // Parts of what no model names.
    const bool is_unnamed =
        list.role == role::kState ? tensor.name.starts_with("parameter ") : is_optimizer(list.of);
    if (is_unnamed && !tensor.shape.empty()) shards->emplace(tensor.name, own);
    if (list.role != role::kState || tensor.shape.empty()) continue;
    for (const auto& [of, parts] : all) {
      const auto owner = of + " ";
      if (!tensor.name.starts_with(owner)) continue;
      const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& each) {
        return tensor.name.starts_with(owner + each.first + " ");
      });
      shards->emplace(tensor.name, part == parts.end() ? own : part->second);
    }
  }
  return shards;
}

bool shares_batches(const RecordedRun& run) {
  for (const auto& rank : run.ranks) {
    const auto all = shards_of(rank);
    for (const auto& record : rank.records) {
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || !all.contains(fact->name)) continue;
      const auto wrapper = fact->text("wrapper");
      if (wrapper != "FullyShardedDataParallel" && wrapper != "fully_shard") return true;
    }
    for (const auto& [of, shards] : all)
      for (const auto& [name, shard] : shards)
        if (!shard.is_flat && std::any_of(shard.offset.begin() + !shard.offset.empty(),
                                          shard.offset.end(), [](auto at) { return at > 0; }))
          return true;
  }
  return false;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const auto extent : shape) {
    if (extent < 0 || (extent > 0 && count > kExtentMost / extent)) return -1;
    count *= extent;
  }
  return count;
}

int64_t elements_of(const std::map<Shard, std::vector<int64_t>>& extents) {
  int64_t count = 0;
  for (const auto& [shard, shape] : extents) count += std::max<int64_t>(count_of(shape), 0);
  return count;
}

std::optional<Digests> whole_of(const std::vector<const Digests*>& by_rank,
                                const std::vector<Shards>& shards, const TensorList& like) {
  auto list = std::make_shared<TensorList>(like);
  Digests out;
  for (const auto& wanted : like.tensors) {
    auto is = assembled(by_rank, shards, wanted);
    if (!is) return {};
    out.values.push_back(is->is_missing ? Digest{0, -1} : Digest{0, 0});
    out.elements.push_back(std::move(is->value));
  }
  out.list = std::move(list);
  return out;
}

}  // namespace lockstep::recorded

#include "harness/history/history.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "harness/history/frames.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace lockstep {

namespace {

template <class Stored, class Out>
std::vector<Out> converted(const TensorValue& value) {
  std::vector<Out> out(value.bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < out.size(); ++i) {
    Stored element;
    std::memcpy(&element, value.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(element);
  }
  return out;
}

template <class Out>
std::optional<std::vector<Out>> integers(const TensorValue& value) {
  if (value.dtype == "int64") return converted<int64_t, Out>(value);
  if (value.dtype == "int32") return converted<int32_t, Out>(value);
  if (value.dtype == "int16") return converted<int16_t, Out>(value);
  if (value.dtype == "int8") return converted<int8_t, Out>(value);
  if (value.dtype == "uint16") return converted<uint16_t, Out>(value);
  if (value.dtype == "uint32") return converted<uint32_t, Out>(value);
  if (value.dtype == "uint64") return converted<uint64_t, Out>(value);
  if (value.dtype == "uint8" || value.dtype == "bool") return converted<uint8_t, Out>(value);
  return {};
}

// A number of 16 bits, of which `fraction_bits` are its fraction: IEEE's interchange format, or a
// float32 cut off after its first 16 bits.
double half_number(uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
}

std::vector<double> halves(const TensorValue& value, int fraction_bits) {
  std::vector<double> out;
  for (const auto bits : converted<uint16_t, uint16_t>(value))
    out.push_back(half_number(bits, fraction_bits));
  return out;
}

std::string place(const Moment& at, std::string_view name) {
  return std::string(name) + " at step " + std::to_string(at.step) + ", " + at.phase;
}

// The last observation of `name` at `at`, or null.
const TensorValue* find(const RankHistory& rank, const Moment& at, std::string_view name) {
  const TensorValue* found = nullptr;
  for (const auto& event : rank.events)
    if (const auto* seen = std::get_if<Observation>(&event.what))
      if (event.at == at && seen->name == name) found = &seen->value;
  return found;
}

}  // namespace

std::string number_text(const BucketOfLayout& bucket) {
  return "bucket " + std::to_string(bucket.number) + " of " + std::to_string(bucket.of);
}

std::string text_of(const BucketOfLayout& bucket) {
  constexpr size_t kNamesMost = 3;
  std::vector<std::string> names;
  for (const auto& name : bucket.parameters) names.push_back(excerpt(name));
  return number_text(bucket) + ": " + listed(names, kNamesMost);
}

std::vector<double> as_doubles(const TensorValue& value) {
  if (value.dtype == "float32") return converted<float, double>(value);
  if (value.dtype == "float64") return converted<double, double>(value);
  if (const auto traits = traits_of(value.dtype); traits.bytes == 2 && traits.precision_bits > 0)
    return halves(value, traits.precision_bits - 1);
  if (auto whole = integers<double>(value)) return *whole;
  throw std::invalid_argument("no reading of " + value.dtype + " as numbers");
}

std::vector<int64_t> as_integers(const TensorValue& value) {
  if (auto whole = integers<int64_t>(value)) return *whole;
  throw std::invalid_argument(value.dtype + " holds no whole numbers");
}

TensorValue int64_values(const std::vector<int64_t>& values) {
  TensorValue out{"int64", {static_cast<int64_t>(values.size())}, {}};
  out.bytes.resize(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

std::string shape_text(const TensorValue& value) {
  std::vector<std::string> sizes;
  for (const auto size : value.shape) sizes.push_back(std::to_string(size));
  return value.dtype + "[" + joined(sizes, ", ") + "]";
}

std::string_view name_of(Ending::Kind kind) {
  return words::kAll<Ending::Kind>.at(static_cast<size_t>(kind));
}

Row History::row(const Moment& at, std::string_view name) const {
  Row row{at, std::string(name), {}};
  std::optional<int> has, lacks;
  for (int rank = 0; rank < size(); ++rank) {
    const auto* value = find(ranks_[static_cast<size_t>(rank)], at, name);
    auto& first = value ? has : lacks;
    if (!first) first = rank;
    if (value) row.by_rank.push_back(*value);
  }
  if (!has) throw NotSeen("no rank recorded " + place(at, name));
  if (lacks)
    throw NotSeen("rank " + std::to_string(*lacks) + " never recorded " + place(at, name) +
                      ", which rank " + std::to_string(*has) + " did",
                  *lacks);
  return row;
}

std::vector<Row> History::rows(std::string_view phase) const {
  std::vector<std::pair<Moment, std::string>> wanted;
  for (const auto& rank : ranks_)
    for (const auto& event : rank.events)
      if (const auto* seen = std::get_if<Observation>(&event.what)) {
        const std::pair<Moment, std::string> key{event.at, seen->name};
        if (event.at.phase == phase && std::find(wanted.begin(), wanted.end(), key) == wanted.end())
          wanted.push_back(key);
      }
  if (wanted.empty()) throw NotSeen("no rank recorded anything in phase " + std::string(phase));
  std::vector<Row> rows;
  for (const auto& [at, name] : wanted) rows.push_back(row(at, name));
  return rows;
}

std::vector<Collective> History::collectives(int rank) const {
  std::vector<Collective> out;
  for (const auto& event : ranks_.at(static_cast<size_t>(rank)).events)
    if (const auto* collective = std::get_if<Collective>(&event.what)) out.push_back(*collective);
  return out;
}

std::vector<Collective> History::collectives(int rank, const Moment& at) const {
  std::vector<Collective> out;
  for (const auto& event : ranks_.at(static_cast<size_t>(rank)).events)
    if (const auto* collective = std::get_if<Collective>(&event.what))
      if (event.at == at) out.push_back(*collective);
  return out;
}

std::string hash_of(const History& history) {
  std::string bytes;
  for (const auto& rank : history.ranks()) bytes += frames_of(rank, WithTimes::no);
  return hash_of(bytes);
}

}  // namespace lockstep

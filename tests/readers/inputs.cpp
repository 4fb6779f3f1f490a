#include "tests/readers/inputs.h"

#include "tests/mutations.h"

#include <cmath>
#include <cstring>
#include <set>

namespace lockstep::readers {

namespace {

using Random = std::mt19937_64;
using testing_support::mutated;
using testing_support::noise;

size_t below(Random& random, size_t end) {
  return random() % end;
}

void add_names(const Json& json, std::set<std::string>& names) {
  for (const auto& [name, value] : json.items()) {
    if (json.is_object()) names.insert(name);
    if (value.is_structured()) add_names(value, names);
  }
}

std::vector<std::string> names_of(const std::vector<Json>& values) {
  std::set<std::string> names;
  for (const auto& value : values) add_names(value, names);
  return {names.begin(), names.end()};
}

// A value at the edge of what some reader allows, or of a type that it does not expect.
Json edge(Random& random) {
  static const std::vector<Json> edges = {nullptr,
                                          true,
                                          false,
                                          0,
                                          1,
                                          -1,
                                          2,
                                          1024,
                                          1025,
                                          int64_t{1} << 31,
                                          int64_t{1} << 53,
                                          std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min(),
                                          std::numeric_limits<uint64_t>::max(),
                                          0.5,
                                          -0.0,
                                          1e300,
                                          -1e300,
                                          "",
                                          "x",
                                          "pass",
                                          "float32",
                                          "bool",
                                          "complex64",
                                          "1-3,5",
                                          "1-999999999",
                                          "2/5",
                                          "0x7",
                                          "a\nb",
                                          "\x1b[2J",
                                          "\xe2\x80\xae",
                                          std::string(5000, 'y'),
                                          Json::array(),
                                          Json::object(),
                                          Json::array({1, "x", nullptr}),
                                          {{"size", 3}}};
  return edges[below(random, edges.size())];
}

Json made_of(const std::vector<std::string>& names, Random& random, int levels) {
  if (levels == 0 || below(random, 3) == 0) return edge(random);
  Json json = below(random, 2) == 0 ? Json::array() : Json::object();
  for (size_t left = below(random, 6); left > 0; --left) {
    auto value = made_of(names, random, levels - 1);
    if (json.is_array())
      json.push_back(std::move(value));
    else
      json[names[below(random, names.size())]] = std::move(value);
  }
  return json;
}

// A value somewhere in `json`; deep ones are reached as often as the others on the way to them.
Json& somewhere(Json& json, Random& random) {
  Json* at = &json;
  while (at->is_structured() && !at->empty() && below(random, 4) != 0)
    at = &*std::next(at->begin(), static_cast<std::ptrdiff_t>(below(random, at->size())));
  return *at;
}

void change(Json& json, const std::vector<std::string>& names, Random& random) {
  Json& at = somewhere(json, random);
  const auto place = [&] { return static_cast<std::ptrdiff_t>(below(random, at.size())); };
  const bool has_parts = at.is_structured() && !at.empty();
  switch (below(random, 5)) {
    case 0:
      if (has_parts) return void(at.erase(std::next(at.begin(), place())));
      break;
    case 1:
      if (has_parts && at.is_array()) return at.push_back(Json(*std::next(at.begin(), place())));
      break;
    case 2:
      if (at.is_object()) return void(at[names[below(random, names.size())]] = edge(random));
      break;
    case 3:
      if (at.is_number_integer() && std::abs(at.get<double>()) < 1e15)
        return void(at = at.get<int64_t>() + (below(random, 2) == 0 ? 1 : -1));
      break;
    default:
      break;
  }
  at = edge(random);
}

}  // namespace

JsonInputs::JsonInputs(std::vector<std::string> files) : files_(std::move(files)) {
  for (const auto& file : files_) values_.push_back(Json::parse(file));
  names_ = names_of(values_);
}

std::string JsonInputs::at(uint64_t number) const {
  Random random(number);
  const size_t which = below(random, files_.size());
  switch (below(random, 8)) {
    case 0:
      return noise(random, 256);
    case 1:
      return made_of(names_, random, 5).dump();
    case 2:
    case 3:
      return mutated(files_[which], random);
    default: {
      auto json = values_[which];
      for (auto changes = 1 + below(random, 2); changes > 0; --changes)
        change(json, names_, random);
      return json.dump();
    }
  }
}

Frames frames_in(const std::string& bytes) {
  return read_frames(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

std::string bytes_of(const Frames& frames) {
  std::string bytes;
  uint64_t number = 0;
  for (const auto& frame : frames.frames) {
    const auto header = frame.header.dump();
    const size_t begin = bytes.size();
    bytes.resize(begin + framed_size(header.size(), frame.payload.size()));
    auto* commit = write_frame(reinterpret_cast<std::byte*>(bytes.data()) + begin, frame.kind,
                               header, frame.payload.data(), frame.payload.size());
    const uint64_t word = kCommit ^ number++;
    std::memcpy(commit, &word, sizeof(word));
  }
  return bytes;
}

FrameInputs::FrameInputs(std::vector<std::string> ranks) : ranks_(std::move(ranks)) {
  std::vector<Json> headers;
  for (const auto& rank : ranks_) {
    frames_.push_back(frames_in(rank));
    for (const auto& frame : frames_.back().frames) headers.push_back(frame.header);
  }
  names_ = names_of(headers);
}

std::string FrameInputs::at(uint64_t number) const {
  Random random(number);
  const size_t which = below(random, ranks_.size());
  if (below(random, 8) == 0) return noise(random, 256);
  if (below(random, 4) == 0) return mutated(ranks_[which], random);
  auto frames = frames_[which];
  for (auto changes = 1 + below(random, 2); changes > 0 && !frames.frames.empty(); --changes) {
    const size_t at = below(random, frames.frames.size());
    auto& frame = frames.frames[at];
    const auto place = frames.frames.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(random, 8)) {
      case 0:
        frame.kind = static_cast<FrameKind>(below(random, 17));
        break;
      case 1:
        frame.payload.resize(below(random, 40));
        break;
      case 2:
        frames.frames.erase(place);
        break;
      case 3:
        frames.frames.insert(place, Frame(frames.frames[below(random, frames.frames.size())]));
        break;
      case 4:
        frame.header = made_of(names_, random, 3);
        break;
      default:
        change(frame.header, names_, random);
    }
  }
  auto bytes = bytes_of(frames);
  return below(random, 16) == 0 ? mutated(std::move(bytes), random) : bytes;
}

}  // namespace lockstep::readers

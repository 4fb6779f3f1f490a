#include "harness/recorded/case_history.h"

#include "harness/base/characters.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"
#include "harness/history/frames.h"
#include "harness/recorded/recorded_run.h"

namespace lockstep::recorded {

namespace {

// A field of a begin record, as a message quotes it.
std::string field_text(const Json& begin, const char* name) {
  const auto found = begin.find(name);
  return found == begin.end() ? "missing" : excerpt(found->dump());
}

void check_begin(const Json& begin, int rank, const Case& c, const std::string& where) {
  const auto expect = [&](const char* name, const Json& wanted) {
    if (!begin.is_object() || !begin.contains(name) || begin[name] != wanted)
      refuse(where, "its '" + std::string(name) + "' is " +
                        (begin.is_object() ? field_text(begin, name) : "missing") + "; expected " +
                        wanted.dump());
  };
  expect("protocol", kProtocol);
  expect("rank", rank);
  expect("world", world_size(c));
  if (begin.contains("case")) expect("case", hash_of(c));
}

// A check computes with the elements that a shape promises.
void check_observation(const Frame& frame, const std::string& where) {
  const auto observation = [&](const char* name) -> const Json& {
    const auto found = frame.header.find(name);
    if (found == frame.header.end()) refuse(where, "no '" + std::string(name) + "'");
    return *found;
  };
  const auto& dtype = observation("dtype");
  const auto& shape = observation("shape");
  if (!dtype.is_string() || !shape.is_array()) return;  // which rank_history refuses
  TensorValue value{one_line(dtype.get<std::string>()), {}, {}};
  for (const auto& extent : shape) {
    if (!extent.is_number_integer()) return;
    value.shape.push_back(extent.get<int64_t>());
  }
  const auto bytes = tensor_bytes(value.dtype, value.shape);
  if (bytes < 0) refuse(where, "no tensor is " + excerpt(shape_text(value)));
  if (static_cast<size_t>(bytes) != frame.payload.size())
    refuse(where, "its payload has " + with_commas(static_cast<int64_t>(frame.payload.size())) +
                      " bytes; " + excerpt(shape_text(value)) + " has " + with_commas(bytes));
}

}  // namespace

RankHistory read_case_rank(const std::string& bytes, int rank, const Case& c,
                           const std::string& file) {
  const auto frames = read_frames(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  if (frames.frames.empty())
    refuse(file, frames.tail.empty() ? "is empty" : "is no history: " + frames.tail);
  if (frames.frames.front().kind != FrameKind::begin)
    refuse(file + ", record 0", "is not the begin of a history");
  check_begin(frames.frames.front().header, rank, c, file + ", record 0");
  for (size_t number = 0; number < frames.frames.size(); ++number)
    if (frames.frames[number].kind == FrameKind::observation)
      check_observation(frames.frames[number], file + ", record " + std::to_string(number));
  auto history = rank_history(frames, file);
  if (!frames.tail.empty()) history.ending = {Ending::Kind::cut_off, frames.tail};
  return history;
}

History read_case_history(const std::filesystem::path& folder, const Case& c) {
  std::vector<RankHistory> ranks(static_cast<size_t>(world_size(c)));
  for (auto& rank : ranks) rank.ending = {Ending::Kind::cut_off, "it left no file"};
  for (const auto& [rank, file] : history_files(folder)) {
    const auto name = one_line(file.string());
    if (rank >= world_size(c))
      refuse(name, "the case has a world of " + std::to_string(world_size(c)));
    ranks[static_cast<size_t>(rank)] = read_case_rank(read_file(file), rank, c, name);
  }
  return History(std::move(ranks));
}

}  // namespace lockstep::recorded

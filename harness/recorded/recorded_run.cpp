#include "harness/recorded/recorded_run.h"

#include "harness/base/characters.h"
#include "harness/base/read_file.h"
#include "harness/base/spelled_json.h"
#include "harness/base/text.h"
#include "harness/history/history_reader.h"

#include <bit>
#include <cstring>
#include <map>
#include <utility>

namespace lockstep::recorded {

namespace {

namespace fs = std::filesystem;

constexpr size_t kNameBytesMost = 1024;
// A value takes up to a hundred bytes where its text takes three. A recorder's fact comes with
// digests of sixteen bytes a tensor, so that no file that is read has as many.
constexpr int64_t kFactValuesMost = 4'000'000;
constexpr size_t kOwnerBytesMost = 200;  // of a list, which each of its digests is found by

std::string line_in(const Json& header, const char* field, const std::string& where,
                    size_t bytes_most = kNameBytesMost) {
  const auto found = header.find(field);
  if (found == header.end() || !found->is_string())
    refuse(where, "no text '" + std::string(field) + "' in " + excerpt(header.dump()));
  auto text = one_line(found->get_ref<const std::string&>());
  if (text.size() > bytes_most) refuse(where, "'" + std::string(field) + "' is too long");
  return text;
}

int64_t whole_in(const Json& header, const char* field, int64_t least, int64_t most,
                 const std::string& where) {
  const auto found = header.find(field);
  if (found == header.end() || !found->is_number_integer())
    refuse(where, "no whole number '" + std::string(field) + "' in " + excerpt(header.dump()));
  const auto value = found->get<int64_t>();
  const bool is_huge = found->is_number_unsigned() && found->get<uint64_t>() > uint64_t(most);
  if (is_huge || value < least || value > most)
    refuse(where, "'" + std::string(field) + "' is " + found->dump() + "; expected " +
                      std::to_string(least) + " to " + std::to_string(most));
  return value;
}

TensorList::Entry entry_of(const Json& json, const std::string& where) {
  const bool has_form = json.is_array() && json.size() == 3 && json[0].is_string() &&
                        json[1].is_string() && json[2].is_array();
  if (!has_form) refuse(where, "expected [name, dtype, shape], not " + excerpt(json.dump()));
  TensorList::Entry entry{.name = one_line(json[0].get<std::string>()),
                          .dtype = one_line(json[1].get<std::string>())};
  for (const auto& extent : json[2]) {
    if (!extent.is_number_integer()) refuse(where, "a shape holds " + excerpt(extent.dump()));
    entry.shape.push_back(extent.get<int64_t>());
  }
  return entry;
}

// Reads the records of one rank, one after the other.
class RankReader {
 public:
  explicit RankReader(std::string file) : file_(std::move(file)), core_(file_) {}

  void take(Frame frame, size_t number) {
    const std::string where = file_ + ", record " + std::to_string(number);
    if (number == 0) take_begin(frame, where);
    if (!frame.header.is_object()) refuse(where, "its header is no object");
    if (has_ended_) refuse(where, "the record before it is the ending");
    if (frame.kind == FrameKind::begin && number > 0) refuse(where, "a history begins once");
    has_ended_ = frame.kind == FrameKind::ending;
    if (frame.kind == FrameKind::moment) at_ = moment_in(frame.header, where);
    const bool may_run_out = frame.kind == FrameKind::moment && at_.phase == phase::kJoin;
    if (auto& all = rank_.joins; may_run_out && !all.empty() && !all.back().has_ended)
      all.back().out_step = all.back().out_step.value_or(at_.step);
    switch (frame.kind) {
      case FrameKind::observation:
        return take_drawn(frame, where);
      case FrameKind::tensors:
        return take_list(frame.header, where);
      case FrameKind::digests:
        return take_digests(frame, where);
      case FrameKind::values:
        return take_values(frame, where);
      case FrameKind::fact:
        return take_fact(std::move(frame.header), where);
      case FrameKind::span:
        return take_span(frame.header, where);
      default:
        core_.take(frame, number);
    }
  }

  Rank finish(const std::string& tail) {
    if (!rank_.is_there) refuse(file_, tail.empty() ? "is empty" : "is no history: " + tail);
    rank_.tail = tail;
    rank_.history = core_.finish();
    return std::move(rank_);
  }

 private:
  void take_begin(const Frame& begin, const std::string& where) {
    if (begin.kind != FrameKind::begin || !begin.header.is_object())
      refuse(where, "is not the begin of a history");
    rank_.is_there = true;
    rank_.world = static_cast<int>(whole_in(begin.header, "world", 1, kWorldMost, where));
    rank_.number = static_cast<int>(whole_in(begin.header, "rank", 0, rank_.world - 1, where));
    for (const auto& [field, text] :
         {std::pair{"program", &rank_.program}, {"torch", &rank_.torch}, {"clock", &rank_.clock}})
      if (begin.header.contains(field)) *text = line_in(begin.header, field, where);
    if (begin.header.contains("perturbed"))
      rank_.perturbed = static_cast<int>(whole_in(begin.header, "perturbed", 0, 1 << 20, where));
  }

  static int64_t list_number(const Json& header, const std::string& where) {
    return whole_in(header, "list", 0, 1 << 20, where);
  }

  void take_list(const Json& header, const std::string& where) {
    TensorList list{.of = line_in(header, "of", where, kOwnerBytesMost),
                    .role = line_in(header, "role", where, kOwnerBytesMost)};
    const auto found = header.find("tensors");
    if (found == header.end() || !found->is_array()) refuse(where, "no list 'tensors'");
    for (const auto& each : *found) list.tensors.push_back(entry_of(each, where));
    lists_[list_number(header, where)] = std::make_shared<const TensorList>(std::move(list));
  }

  void take_digests(const Frame& frame, const std::string& where) {
    static_assert(std::endian::native == std::endian::little && sizeof(Digest) == 16);
    const auto found = lists_.find(list_number(frame.header, where));
    if (found == lists_.end()) refuse(where, "no record before it describes its tensors");
    const auto count = found->second->tensors.size();
    if (frame.payload.size() != count * sizeof(Digest))
      refuse(where, "its payload has " + std::to_string(frame.payload.size()) + " bytes for " +
                        std::to_string(count) + " tensors");
    Digests digests{.list = found->second, .values = std::vector<Digest>(count)};
    if (count > 0) std::memcpy(digests.values.data(), frame.payload.data(), frame.payload.size());
    rank_.records.push_back({at_, std::move(digests)});
  }

  // The elements of the tensors whose digests came before it.
  void take_values(const Frame& frame, const std::string& where) {
    auto* digests =
        rank_.records.empty() ? nullptr : std::get_if<Digests>(&rank_.records.back().what);
    const auto found = lists_.find(list_number(frame.header, where));
    if (!digests || found == lists_.end() || digests->list != found->second)
      refuse(where, "no digests of its tensors before it");
    std::vector<TensorValue> elements;
    const auto most = frame.header.contains("elements")
                          ? whole_in(frame.header, "elements", 1, kRunBytesMost, where)
                          : kRunBytesMost;
    size_t at = 0;
    for (size_t tensor = 0; tensor < digests->values.size(); ++tensor) {
      const auto& is = digests->list->tensors[tensor];
      TensorValue value{is.dtype, is.shape, {}};
      if (!digests->values[tensor].is_missing()) {
        auto bytes = tensor_bytes(is.dtype, is.shape);
        if (const auto each = traits_of(is.dtype).bytes; each > 0 && bytes / each > most) {
          bytes = most * each;  // a sample of its elements
          value.shape = {most};
        }
        if (bytes < 0) refuse(where, "no tensor is " + excerpt(shape_text(value)));
        if (static_cast<size_t>(bytes) > frame.payload.size() - at)
          refuse(where, "its payload is shorter than its tensors");
        const auto from = frame.payload.begin() + static_cast<std::ptrdiff_t>(at);
        value.bytes.assign(from, from + bytes);
        at += static_cast<size_t>(bytes);
      }
      elements.push_back(std::move(value));
    }
    if (at != frame.payload.size()) refuse(where, "its payload is longer than its tensors");
    digests->elements = std::move(elements);
  }

  void take_fact(Json header, const std::string& where) {
    const auto found = header.find("values");
    if (found == header.end() || !found->is_object()) refuse(where, "no object 'values'");
    Fact fact{line_in(header, "name", where), {}};
    fact.values = in_lines(std::move(*found), fact_values_left_);
    if (fact_values_left_ < 0)
      refuse(where, "its facts hold more than " + with_commas(kFactValuesMost) + " values");
    if (fact.name.starts_with("join ")) take_join(fact.name.ends_with(" ended"), where);
    rank_.records.push_back({at_, std::move(fact)});
  }

  void take_join(bool ends, const std::string& where) {
    auto& joins = rank_.joins;
    if (!ends)
      return joins.push_back({.from_step = at_.step,
                              .from_event = core_.event_count(),
                              .from_record = rank_.records.size()});
    if (joins.empty() || joins.back().has_ended) refuse(where, "no join has begun that could end");
    auto& join = joins.back();
    if (at_.step < join.from_step) refuse(where, "a join ends before its first step");
    join.to_step = at_.step;
    join.to_event = core_.event_count();
    join.to_record = rank_.records.size();
    join.has_ended = true;
  }

  void take_span(const Json& header, const std::string& where) {
    const auto from = whole_in(header, "from", 0, kTimeMost, where);
    rank_.records.push_back({at_, Span{line_in(header, "name", where), from,
                                       whole_in(header, "ns", from, kTimeMost, where)}});
  }

  void take_drawn(const Frame& frame, const std::string& where) {
    Drawn drawn{.name = line_in(frame.header, "name", where)};
    if (line_in(frame.header, "dtype", where) != "int64" || frame.payload.size() % 8 != 0)
      return;  // another observation, which no invariant looks at
    drawn.indices.resize(frame.payload.size() / 8);
    if (!drawn.indices.empty())
      std::memcpy(drawn.indices.data(), frame.payload.data(), frame.payload.size());
    rank_.records.push_back({at_, std::move(drawn)});
  }

  std::string file_;
  Rank rank_;
  Moment at_;
  bool has_ended_ = false;
  HistoryReader core_;  // of the records that histories of cases have too
  std::map<int64_t, std::shared_ptr<const TensorList>> lists_;
  int64_t fact_values_left_ = kFactValuesMost;
};

}  // namespace

History RecordedRun::history() const {
  std::vector<RankHistory> histories;
  for (const auto& rank : ranks) histories.push_back(rank.history);
  return History(std::move(histories));
}

Rank read_rank(const std::string& bytes, const std::string& file) {
  RankReader reader(file);
  return reader.finish(
      for_each_frame(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                     [&](Frame frame, size_t number) { reader.take(std::move(frame), number); }));
}

RecordedRun read_recorded_run(const fs::path& folder) {
  const auto files = history_files(folder);
  RecordedRun run;
  for (const auto& [number, file] : files) {
    const auto name = one_line(file.string());
    auto rank = read_rank(read_file(file), name);
    if (run.ranks.empty()) run.ranks.resize(static_cast<size_t>(rank.world));
    if (rank.number != number)
      refuse(name, "is the history of rank " + std::to_string(rank.number));
    if (rank.world != static_cast<int>(run.ranks.size()))
      refuse(name, "is of a world of " + std::to_string(rank.world) + ", and " +
                       one_line(files.begin()->second.filename().string()) + " of a world of " +
                       std::to_string(run.ranks.size()));
    run.ranks[static_cast<size_t>(number)] = std::move(rank);
  }
  for (size_t number = 0; number < run.ranks.size(); ++number)
    if (auto& rank = run.ranks[number]; !rank.is_there) {
      rank.number = static_cast<int>(number);
      rank.history.ending = {Ending::Kind::cut_off, "it left no file"};
    }
  return run;
}

}  // namespace lockstep::recorded

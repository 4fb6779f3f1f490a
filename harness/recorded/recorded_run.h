// A run of a program that is not ours, as its ranks recorded it: a file rank0.history,
// rank1.history, ... for each in one folder. docs/protocol.md, section 5, is the format. The files
// may come from a stranger.
#pragma once

#include "harness/base/dtype.h"
#include "harness/history/frames.h"
#include "harness/recorded/history_files.h"
#include "harness/recorded/names.h"

#include <memory>
#include <optional>

namespace lockstep::recorded {

// Some tensors of a model or optimizer, whose digests are recorded together. `role`: "parameters",
// "gradients", "buffers", "state", "random" and the others of docs/protocol.md, section 5.
struct TensorList {
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    bool operator==(const Entry&) const = default;
  };
  std::string of, role;
  std::vector<Entry> tensors;
  bool operator==(const TensorList&) const = default;
};

// The digest of one tensor. Its norm is for people, and not finite where an element is not.
struct Digest {
  uint64_t bits = 0;
  double norm = 0;
  bool is_missing() const { return norm < 0; }  // a gradient that was never computed
};

struct Digests {
  std::shared_ptr<const TensorList> list;
  std::vector<Digest> values;  // one for each tensor of the list
  // Empty, or one for each, where they were recorded too; of a missing tensor without bytes.
  std::vector<TensorValue> elements = {};
};

// True if both have as many values, of the same bits.
bool have_equal_bits(const Digests& a, const Digests& b);

// The bytes of a whole tensor; -1 where it has no such number, or one that no folder holds.
int64_t tensor_bytes(std::string_view dtype, const std::vector<int64_t>& shape);

// Something that is no tensor: "model 0" with its options, "loader 0" at the begin of a pass.
struct Fact {
  std::string name;
  Json values;

  std::string text(const char* field) const;              // "" where it is no text
  std::optional<int64_t> whole(const char* field) const;  // none where it is no whole number
  std::optional<double> number(const char* field) const;  // none where it is no number
  bool truth(const char* field) const;                    // false where it is no truth
  // The texts of a list, as they are in the file; none where it is no list.
  std::vector<std::string> texts(const char* field) const;
};

// The indices that a loader or a sampler dealt.
struct Drawn {
  std::string name;
  std::vector<int64_t> indices;
};

// A time in which the program did one thing: "forward", "backward", "update" or "data". In
// nanoseconds of the rank's clock.
struct Span {
  std::string name;
  int64_t from_ns = 0, to_ns = 0;
};

struct Record {
  Moment at;
  std::variant<Digests, Fact, Drawn, Span> what;
};

// The fact of that name that a record holds, of a model ("model 0") or of an optimizer, or the
// digests in that role; null where it holds another thing.
const Fact* fact_in(const Record& record, std::string_view name);
const Fact* model_in(const Record& record);
const Fact* optimizer_in(const Record& record);
const Digests* digests_in(const Record& record, std::string_view role);

// True of the fact that a backward ran.
inline bool is_backward(const Record& record) {
  return fact_in(record, fact::kBackward) != nullptr;
}

// A rank's join with ranks that have more inputs, or fewer. Its updates are the steps from
// `from_step` up to `to_step`, those of a divided optimizer that it made for others, from
// `out_step` on, among them; events and records are numbered in the rank's lists.
struct Join {
  int from_step = 0, to_step = 0;
  std::optional<int> out_step = {};  // in which it had no more inputs
  size_t from_event = 0, to_event = 0, from_record = 0, to_record = 0;
  bool has_ended = false;
};

inline constexpr int64_t kTimeMost = int64_t{1} << 62;  // of a clock, so that differences fit

struct Rank {
  bool is_there = false;  // its file is
  int number = 0, world = 1;
  std::string program, torch;
  std::string clock;    // ranks with the same one can compare their times
  int perturbed = 0;    // above 0: its inputs and parameters were moved, in this drawn direction
  RankHistory history;  // its collectives and its ending
  std::vector<Record> records;  // in the order in which it wrote them
  std::vector<Join> joins;      // in order, one after the other
  size_t shadowed = 0;          // updates that it had no inputs for, in joins
  std::string tail;  // why reading stopped before the file's end; empty when all was read
};

struct RecordedRun {
  std::vector<Rank> ranks;  // by number, all of the world
  History history() const;
};

// Reads the bytes of one file. Throws FieldError, whose text starts with `file`.
Rank read_rank(const std::string& bytes, const std::string& file);

// Reads history_files of `folder`. Throws FieldError for files that no recorder wrote, and where
// two do not belong together.
RecordedRun read_recorded_run(const std::filesystem::path& folder);

}  // namespace lockstep::recorded

// Numbers of cases, or of shards, kept as ranges, so that "1-100000000" takes no more memory than
// "1".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class NumberSet {
 public:
  struct Range {
    int first = 1, last = 1;
    bool operator==(const Range&) const = default;
  };

  NumberSet() = default;
  NumberSet(std::initializer_list<int> numbers) : NumberSet(std::vector<int>(numbers)) {}
  explicit NumberSet(const std::vector<int>& ascending);

  // Ascending, with a gap before each.
  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  int64_t count() const;
  int first() const { return ranges_.front().first; }  // not for an empty set
  int last() const { return ranges_.back().last; }

  void add(const NumberSet& more);
  void cut_after(int number);  // leaves out every number above

  // "1-5,7,9-30", and back. The latter returns none where the text is no such list, a number is
  // below 1 or above `most`, or they do not ascend.
  std::string text() const;
  static std::optional<NumberSet> parsed(std::string_view text, int64_t most);

  bool operator==(const NumberSet&) const = default;

 private:
  void append(Range range);  // which begins no earlier than the last range

  std::vector<Range> ranges_;
};

// True where two of them share a number.
bool overlap(const std::vector<NumberSet>& sets);

}  // namespace lockstep

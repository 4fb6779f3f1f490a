// The cases of a job, in order. A drawn case is not kept but drawn again at each access: a campaign
// of many thousands of cases holds a few bytes of each.
#pragma once

#include "harness/cases/result.h"
#include "harness/cases/scenario.h"

#include <cstdint>

namespace lockstep {

class CaseList {
 public:
  // The drawn case with that number, the same each time.
  using Draw = std::function<Case(int number)>;

  CaseList() = default;
  CaseList(std::vector<Case> cases);  // NOLINT: a list of cases is one, wherever it is from

  size_t size() const { return shared_ ? shared_->entries.size() : 0; }
  bool empty() const { return size() == 0; }

  Case operator[](size_t index) const;

  // These facts about a case are known without drawing it again.
  int world_size(size_t index) const { return shared_->entries[index].world_size; }
  const std::string& values(size_t index) const;  // of its field "values"; empty where it has none

  bool is_drawn(size_t index) const { return shared_->entries[index].number >= 0; }

  // The labels of its scenario that it has, a bit each; a case that was not drawn has none.
  uint64_t labels(size_t index) const { return shared_->entries[index].labels; }

  // The pairs of options in these cases, of all that could be (option_pairs.h).
  PairCoverage pairs() const { return shared_ ? shared_->pairs : PairCoverage(); }

  // How many cases at the beginning come from archived failures.
  size_t archived() const { return shared_ ? shared_->archived : 0; }

  // The hash of all cases in their order.
  std::string hash() const;

  // The archived cases, and of the others `most` at equal distances, the first and the last among
  // them. Cases grow along a list, so these are the smallest and some of every size.
  CaseList a_few(size_t most) const;

 private:
  friend class CaseListBuilder;
  struct Entry {
    int number = 0;  // of the draw; for a kept case -1 minus its index
    int world_size = 1;
    uint32_t values = 0;  // index of a word
    uint64_t labels = 0;
  };
  struct Shared {
    Draw draw;
    std::vector<Case> kept;
    std::vector<Entry> entries;
    std::vector<std::string> words;
    std::string hash;
    size_t archived = 0;
    PairCoverage pairs;
  };

  std::shared_ptr<const Shared> shared_;  // copies of a job are of the same cases
};

class CaseListBuilder {
 public:
  void keep(const Case& c);
  void keep_archived(const Case& c);  // before all others
  void draw_again(const Case& c, int number, uint64_t labels);
  size_t size() const { return list_.entries.size(); }

  // The cases so far. `draw` outlives the builder: it is called as long as the list is alive.
  CaseList list(CaseList::Draw draw = {}, PairCoverage pairs = {}) const;

 private:
  void add(const Case& c, int number, uint64_t labels);
  std::string hashes_;  // of all cases, one after the other
  CaseList::Shared list_;
};

}  // namespace lockstep

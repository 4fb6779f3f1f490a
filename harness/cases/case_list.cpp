#include "harness/cases/case_list.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

CaseList::CaseList(std::vector<Case> cases) {
  CaseListBuilder builder;
  for (const auto& c : cases) builder.keep(c);
  *this = builder.list();
}

Case CaseList::operator[](size_t index) const {
  const int number = shared_->entries.at(index).number;
  return number < 0 ? shared_->kept[static_cast<size_t>(-1 - number)] : shared_->draw(number);
}

const std::string& CaseList::values(size_t index) const {
  return shared_->words[shared_->entries[index].values];
}

std::string CaseList::hash() const {
  return shared_ ? shared_->hash : hash_of("");
}

CaseList CaseList::a_few(size_t most) const {
  if (size() <= archived() + most) return *this;
  const auto few = std::make_shared<Shared>(*shared_);
  few->entries.resize(archived());
  few->pairs = {};
  const size_t last = size() - archived() - 1;
  for (size_t i = 0; i < most; ++i) {
    const size_t index = archived() + (most == 1 ? 0 : i * last / (most - 1));
    few->entries.push_back(shared_->entries[index]);
    few->hash += " " + std::to_string(index);
  }
  few->hash = hash_of(few->hash);
  CaseList out;
  out.shared_ = few;
  return out;
}

void CaseListBuilder::keep(const Case& c) {
  list_.kept.push_back(c);
  add(c, -static_cast<int>(list_.kept.size()), 0);
}

void CaseListBuilder::keep_archived(const Case& c) {
  keep(c);
  ++list_.archived;
}

void CaseListBuilder::draw_again(const Case& c, int number, uint64_t labels) {
  add(c, number, labels);
}

void CaseListBuilder::add(const Case& c, int number, uint64_t labels) {
  auto& words = list_.words;
  const auto word = c.value.contains("values") ? c.value["values"].get<std::string>() : "";
  const auto found = std::find(words.begin(), words.end(), word);
  const auto at = static_cast<uint32_t>(found - words.begin());
  if (found == words.end()) words.push_back(word);
  list_.entries.push_back({number, world_size(c), at, labels});
  hashes_ += hash_of(c);
}

CaseList CaseListBuilder::list(CaseList::Draw draw, PairCoverage pairs) const {
  const auto shared = std::make_shared<CaseList::Shared>(list_);
  shared->draw = std::move(draw);
  shared->pairs = pairs;
  shared->hash = hash_of(hashes_);
  CaseList out;
  out.shared_ = shared;
  return out;
}

}  // namespace lockstep

#include "harness/verdict/verdict.h"

#include "harness/base/text.h"
#include "harness/verdict/element.h"

#include <iterator>
#include <set>

namespace lockstep {

std::string FindingPlace::text() const {
  return at ? "step " + std::to_string(at->step) + ", " + at->phase + ", " + record +
                  index_text(index)
            : words;
}

Findings& operator+=(Findings& all, Findings more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

std::string without_record(const Finding& finding) {
  const auto name = finding.where.record + ": ";
  return finding.where.record.empty() || !finding.diagnosis.starts_with(name)
             ? finding.diagnosis
             : finding.diagnosis.substr(name.size());
}

bool keep_first_line(Finding& finding) {
  auto lines = split(finding.diagnosis, '\n');
  finding.diagnosis = lines.front();
  finding.details.insert(finding.details.begin(), std::make_move_iterator(lines.begin() + 1),
                         std::make_move_iterator(lines.end()));
  return lines.size() > 1;
}

std::string Verdict::signature() const {
  if (findings.empty()) return "";
  const Finding& first = findings.front();
  return std::string(name_of(kind)) + ": " + first.rule +
         (first.pattern.empty() ? "" : " [" + first.pattern + "]");
}

std::string_view name_of(Verdict::Kind kind) {
  return words::kAll<Verdict::Kind>.at(static_cast<size_t>(kind));
}

bool shows_failure(const Verdict& other, const Verdict& failure) {
  if (other.signature() == failure.signature()) return true;
  if (other.kind != failure.kind || other.findings.empty() || failure.findings.empty())
    return false;
  const auto &found = other.findings.front(), &wanted = failure.findings.front();
  return found.rule == wanted.rule && found.specificity > wanted.specificity;
}

Findings other_explanations(const Verdict& verdict) {
  Findings out;
  std::set<std::string> seen;
  for (const auto& finding : verdict.findings) {
    const bool is_first = &finding == &verdict.findings.front();
    const bool explains = finding.specificity == Specificity::explanation;
    if (seen.insert(finding.pattern).second && explains && !is_first && !finding.pattern.empty())
      out.push_back(finding);
  }
  return out;
}

bool is_failure(Verdict::Kind kind) {
  return kind <= Verdict::Kind::fail;
}

}  // namespace lockstep

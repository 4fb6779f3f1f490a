#include "ddp/comm/posts.h"

#include <iterator>
#include <sstream>

namespace lockstep {

std::string text_of(const EndOfRank& end) {
  return std::to_string(end.rank) + ' ' + std::to_string(end.issued_count) + ' ' +
         std::to_string(end.moment) + ' ' + std::to_string(end.pass_count);
}

std::optional<EndOfRank> end_in(const std::string& text) {
  std::istringstream in(text);
  EndOfRank end;
  if (in >> end.rank >> end.issued_count >> end.moment >> end.pass_count) return end;
  return std::nullopt;
}

std::string text_of(const Report& report) {
  return std::to_string(report.rank) + ' ' + std::to_string(report.moment) + ' ' +
         std::to_string(report.issued_count) + ' ' + report.sentence;
}

std::optional<Report> report_in(const std::string& text) {
  std::istringstream in(text);
  Report report;
  if (!(in >> report.rank >> report.moment >> report.issued_count) || in.get() != ' ')
    return std::nullopt;
  report.sentence.assign(std::istreambuf_iterator<char>(in), {});
  return report;
}

}  // namespace lockstep

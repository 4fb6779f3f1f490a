#include "cli/launch/rank_failure.h"

#include "harness/base/parse_json.h"
#include "harness/base/read_file.h"
#include "harness/base/text.h"

namespace lockstep::cli {

namespace {

std::optional<int64_t> time_in(const Json& message) {
  const auto info = message.find("extraInfo");
  if (info == message.end() || !info->is_object()) return {};
  const auto time = info->find("time_ns");
  return time != info->end() && time->is_string() ? parsed_int(time->get<std::string>())
                                                  : std::nullopt;
}

}  // namespace

std::filesystem::path error_file_of(const ProgramRanks& ranks, int rank) {
  return ranks.folder / ("rank" + std::to_string(rank) + ".json");
}

std::optional<ReportedError> error_reported_in(const std::filesystem::path& file) {
  Json report;
  try {
    report = parse_json(read_file(file), file.string());
  } catch (const FieldError&) {
    return {};
  }
  if (!report.is_object() || !report.contains("message")) return {};
  const Json& message = report["message"];
  if (message.is_string())
    return ReportedError{.sentence = message.get<std::string>(), .time_ns = {}};
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string())
    return {};
  return ReportedError{.sentence = message["message"].get<std::string>(),
                       .time_ns = time_in(message)};
}

// If all ranks exited alike, without a signal or an error file, no rank is to blame: every rank may
// have decided to skip, for example.
static bool ended_alike(const ProgramRanks& ranks, const GroupReport& report) {
  const auto& first = report.ends.front();
  if (report.ends.size() < 2 || first.kind != ChildEnd::Kind::exited || first.code == 0)
    return false;
  for (size_t rank = 0; rank < report.ends.size(); ++rank) {
    const auto& end = report.ends[rank];
    if (end.kind != first.kind || end.code != first.code ||
        error_reported_in(error_file_of(ranks, static_cast<int>(rank))))
      return false;
  }
  return true;
}

// A rank that fails tells its peers while it unwinds, and they may end before it
// does; so among ranks that reported a time the earliest is to blame, not the first to end.
int first_failed(const ProgramRanks& ranks, const GroupReport& report) {
  int first = report.first_bad;
  const auto own = error_reported_in(error_file_of(ranks, first));
  if (!own || !own->time_ns) return first;
  int64_t earliest = *own->time_ns;
  for (int rank = 0; rank < ranks.count; ++rank) {
    const auto& end = report.ends[static_cast<size_t>(rank)];
    const bool is_well = end.kind == ChildEnd::Kind::exited && end.code == 0;
    if (is_well || end.kind == ChildEnd::Kind::cut_off) continue;
    const auto reported = error_reported_in(error_file_of(ranks, rank));
    if (!reported || !reported->time_ns || *reported->time_ns >= earliest) continue;
    earliest = *reported->time_ns;
    first = rank;
  }
  return first;
}

// Every line of a report after the first has its rank's prefix, as the rank's output has.
static std::string with_prefixes(const std::string& report, int rank) {
  return joined(split(report, '\n'), "\n[" + std::to_string(rank) + "] ");
}

std::string failure_text(const ProgramRanks& ranks, const GroupReport& report, int rank) {
  const auto& end = report.ends[static_cast<size_t>(rank)];
  if (ended_alike(ranks, report)) return "every rank exited with code " + std::to_string(end.code);
  const auto how = end.kind == ChildEnd::Kind::exited ? "with exit code " + std::to_string(end.code)
                                                      : "by " + signal_name(end.code);
  const auto reported = error_reported_in(error_file_of(ranks, rank));
  return "rank " + std::to_string(rank) + " failed first, " + how +
         (reported ? ": " + with_prefixes(reported->sentence, rank) : "");
}

std::string killed_text(const GroupReport& report) {
  std::vector<std::string> killed;
  for (size_t rank = 0; rank < report.ends.size(); ++rank)
    if (report.ends[rank].kind == ChildEnd::Kind::cut_off) killed.push_back(std::to_string(rank));
  if (killed.empty()) return "";
  return (killed.size() == 1 ? "rank " : "ranks ") + joined(killed, ", ") +
         " did not end in time and " + (killed.size() == 1 ? "was" : "were") + " killed";
}

}  // namespace lockstep::cli

#include "harness/archive/run_archive.h"

namespace lockstep {

template <class Write>
void RunArchive::attempt(const Write& write) {
  try {
    write();
  } catch (const ArchiveError& error) {
    if (loss_.empty()) loss_ = error.what();
  }
}

template <class Write>
void RunArchive::attempt_line(const Write& write) {
  if (!lines_are_whole_) return;
  lines_are_whole_ = false;
  attempt([&] {
    write();
    lines_are_whole_ = true;
  });
}

void RunArchive::append(const Json& event) {
  attempt_line([&] { archive_.append(event); });
}

void RunArchive::on_case(const Turn& turn) {
  attempt_line([&] { archive_.on_case(turn); });
}

void RunArchive::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  attempt_line([&] { archive_.on_verdict(turn, history, verdict); });
}

void RunArchive::on_result(const Result& result) {
  attempt_line([&] { archive_.on_result(result); });
}

void RunArchive::write(const std::string& name, const std::string& text) {
  attempt([&] { archive_.write(name, text); });
}

void RunArchive::keep(const KeptHistory& kept) {
  attempt([&] { archive_.keep(kept); });
}

std::filesystem::path RunArchive::save_failure(const Case& c, const std::string& file) {
  std::filesystem::path path;
  attempt([&] { path = archive_.save_failure(c, file); });
  return path;
}

std::filesystem::path RunArchive::logs_for(const Case& c, const Setting& setting) const {
  return archive_.logs_for(c, setting);
}

}  // namespace lockstep

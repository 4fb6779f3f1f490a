// The archive as a run uses it: a write error costs the archive and nothing else.
#pragma once

#include "harness/archive/archive.h"

namespace lockstep {

// After the first line that cannot be written no other line is written, since the file may end in
// the middle of one; each file is tried.
class RunArchive : public Listener {
 public:
  explicit RunArchive(Archive& archive) : archive_(archive) {}

  void append(const Json& event);
  void on_case(const Turn& turn) override;
  void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) override;
  void on_result(const Result& result) override;
  void write(const std::string& name, const std::string& text);
  void keep(const KeptHistory& kept);
  // Empty where it could not be saved.
  std::filesystem::path save_failure(const Case& c, const std::string& file);
  std::filesystem::path file_of(const Case& c) const { return archive_.file_of(c); }
  std::optional<Origin> origin_of(const Scenario& scenario, const Case& c) const {
    return archive_.origin_of(scenario, c);
  }
  std::filesystem::path logs_for(const Case& c, const Setting& setting) const;

  // Why the first missing entry could not be written; empty where nothing is missing.
  const std::string& loss() const { return loss_; }

 private:
  template <class Write>
  void attempt(const Write& write);
  template <class Write>
  void attempt_line(const Write& write);

  Archive& archive_;
  std::string loss_;
  bool lines_are_whole_ = true;
};

}  // namespace lockstep

// The files that a run leaves on disk, under one root (".lockstep" by default):
//
//   runs/<time>-<id>/run.json          what was found, once the run is over
//   runs/<time>-<id>/{junit.xml,summary.md}   the same for CI servers and for reading
//   runs/<time>-<id>/events.jsonl      one line before and one after each run of a case
//   runs/<time>-<id>/logs/<name>/rank<r>.{out,err}   what the ranks of a failing case wrote
//   runs/latest                        a link to the newest run, replaced in one step
//   runs/<time>-<id>/histories/...   what ranks recorded in a few cases: kept_histories.h
//   failures/<name>.json               failing cases, shrunk, meant to be committed
//
// <name> is the scenario and six digits of the case's hash. A line is in the kernel's hands before
// the case runs, so it survives SIGKILL. Folders of runs are 0700. Once they are made a write error
// costs the archive and nothing else.
#pragma once

#include "harness/archive/kept_histories.h"
#include "harness/cases/listener.h"

namespace lockstep {

// The folder cannot be written: a sentence with the path, the cause and the cure.
struct ArchiveError : std::runtime_error {
  using runtime_error::runtime_error;
};

class Archive : public Listener {
 public:
  // Makes the run's folder and the link, and writes a probe of 64 KiB, so that a full disk is
  // found before the first case. Throws ArchiveError.
  explicit Archive(std::filesystem::path root);
  ~Archive() override;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  // Appends one line to events.jsonl, as each of the three callbacks does. After the first line
  // that cannot be written no other line is written, since the file may end in the middle of one;
  // each file is tried.
  void append(const Json& event);
  void on_case(const Turn& turn) override;
  void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) override;
  void on_result(const Result& result) override;

  // Replaces a file of the run's folder, whole or not at all.
  void write(const std::string& name, const std::string& text);

  // Keeps a history, unless it is too large or there are enough.
  void keep(const KeptHistory& kept);

  // Saves `file`, the case file of `c`, under failures/, and returns its path; empty where it could
  // not be saved.
  std::filesystem::path save_failure(const Case& c, const std::string& file);

  // The path of a case under failures/, whether it is saved or not.
  std::filesystem::path file_of(const Case& c) const;

  // The drawn case that the archived case was shrunk from. None where it was not, or has no file.
  std::optional<Origin> origin_of(const Scenario& scenario, const Case& c) const;

  // The folder for the output of a failing case; not made yet.
  std::filesystem::path logs_for(const Case& c, const Setting& setting) const;

  // Why the first missing entry could not be written; empty where nothing is missing.
  const std::string& loss() const { return loss_; }

 private:
  // False where it threw ArchiveError.
  template <class Write>
  bool attempt(const Write& write);
  void write_history(const KeptHistory& kept,
                     const std::vector<std::pair<std::string, std::string>>& files);

  std::filesystem::path root_, folder_;
  size_t histories_ = 0;
  int events_ = -1;  // open for appending
  std::string loss_;
  bool lines_are_whole_ = true;
};

}  // namespace lockstep

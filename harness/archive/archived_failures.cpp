#include "harness/archive/archived_failures.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace lockstep {

namespace fs = std::filesystem;

namespace {

// The cure for a file that is no case file, or none that this program can read.
std::string cure_of_file(const fs::path& file, const FieldError& error) {
  std::error_code none;
  if (!fs::is_regular_file(file, none))
    return "move it out of this folder, which is for case files";
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) != 0) return "let this user read it";
  if (dynamic_cast<const OtherVersion*>(&error))
    return "run it with the version that wrote it, or move it elsewhere";
  return "it was cut or changed: restore it, or delete it";
}

// The cure where the file is right and the case in it is not.
std::string cure_of_case(const FieldError& error) {
  if (dynamic_cast<const UnknownField*>(&error))
    return "the scenario has other fields than when the case was saved: rename the field, or "
           "delete "
           "the file";
  return "mend the value, or delete the file";
}

[[noreturn]] void refuse(const std::string& why, const std::string& cure) {
  throw FieldError(why + "; archived failures run first: " + cure);
}

Case read_archived(const fs::path& file) {
  try {
    return read_case_file(file).c;
  } catch (const FieldError& error) {
    refuse(error.what(), cure_of_file(file, error));
  }
}

Case parsed(const Scenario& scenario, const Case& c, const fs::path& file) {
  try {
    return scenario.parse(c.value);
  } catch (const FieldError& error) {
    refuse(one_line(file.string()) + ": " + error.what(), cure_of_case(error));
  }
}

}  // namespace

ArchivedFailures archived_failures(const fs::path& root, const Scenario& scenario) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "failures", none)) {
    const auto name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && is_named(scenario, name.substr(0, name.find('-'))))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ArchivedFailures out;
  std::optional<std::string> problem;
  std::vector<std::string> refused;
  for (const auto& file : files) {
    try {
      const Case read = read_archived(file);
      if (!is_named(scenario, read.scenario)) continue;
      auto c = parsed(scenario, read, file);
      const auto why = scenario.unmet_precondition(c);
      if (why.empty())
        out.cases.push_back(std::move(c));
      else
        out.refused.push_back(one_line(file.string()) + " is not run: " + why +
                              "; it proves nothing: delete it");
    } catch (const FieldError& error) {
      if (!problem) problem = error.what();
      refused.push_back(one_line(file.filename().string()));
    }
  }
  if (!problem) return out;
  refused.erase(refused.begin());
  throw FieldError(*problem + (refused.empty() ? ""
                                               : "; beside it these cannot be run: " +
                                                     excerpt(joined(refused, ", "))));
}

}  // namespace lockstep

#include "scenarios/collectives/loaded_files.h"

#include "harness/rank/rank_context.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/collectives/state_arguments.h"

#include <filesystem>
#include <stdexcept>
#include <utility>

namespace lockstep::scenarios::collectives {

namespace {

constexpr const char *kWrong = ".wrong", *kFolder = ".folder", *kWritten = "files are written";

// The error of `act` without the path.
std::string error_without(const std::string& path, const std::function<void()>& act) {
  return naming(error_of(act), path, "");
}

Act loaded_by(RankContext& here, const LoadedFiles& files) {
  const auto path = path_of_checkpoint(here);
  if (here.rank() == 0) {
    files.right(path, here.size());
    files.wrong(path + kWrong, here.size());
    here.store()->set(kWritten, std::string("yes"));
  }
  here.store()->wait({kWritten});
  return [&here, path, make = files.make](bool has_another) {
    const auto& load = checkpoints(here).load;
    const auto target = make();
    const auto problem = error_without(
        path, [&] { load(path + (has_another ? kWrong : ""), here.group(), target->state(), {}); });
    here.record(kLoaded, target->numbers());
    if (!problem.empty()) throw std::runtime_error(problem);
  };
}

Act saved_by(RankContext& here) {
  const auto path = path_of_checkpoint(here);
  if (here.rank() == 0) std::filesystem::create_directory(path + kFolder);
  return [&here, path, is_first = true](bool /*has_another*/) mutable {
    int64_t step = 4;
    const auto where = path + (std::exchange(is_first, false) ? kFolder : "");
    const auto problem = error_without(path, [&] {
      checkpoints(here).save(where, here.group(), {.step = &step, .generators = {}}, {}, {});
    });
    if (!problem.empty()) throw std::runtime_error(problem);
  };
}

}  // namespace

Refused refused_load(const LoadedFiles& files, const std::string& reason) {
  return {[files](RankContext& here) { return loaded_by(here, files); },
          "load_checkpoint: " + std::string(kWrong) + ": " + reason};
}

Refused refused_over_a_folder() {
  const std::string folder = kFolder;
  return {saved_by,
          "save_checkpoint: " + folder + ": cannot write " + folder + ": it is no regular file",
          /*rank=*/0};
}

}  // namespace lockstep::scenarios::collectives

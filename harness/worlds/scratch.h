// Folders for the files that ranks' programs write. No torch.
#pragma once

#include <filesystem>

namespace lockstep {

// A folder that this process and its forks make at its first use, and that it removes. Its name is
// chosen here, at random, and nothing else is made or removed: no name comes from elsewhere, and no
// folder of this name can exist before.
class ScratchFolder {
 public:
  // In `parent`, which exists.
  explicit ScratchFolder(const std::filesystem::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // With its contents; a missing folder counts as removed.
  void remove() const;

 private:
  const std::filesystem::path path_;
};

// Makes the folder with mode 0700, or finds the one another rank made: it must then be a folder of
// this user's that others cannot enter. Throws std::filesystem::filesystem_error.
void make_scratch(const std::filesystem::path& folder);

}  // namespace lockstep

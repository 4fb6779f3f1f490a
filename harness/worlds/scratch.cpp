#include "harness/worlds/scratch.h"

#include "harness/process/secret.h"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {

namespace {

[[noreturn]] void fail(const std::filesystem::path& folder, int error) {
  throw std::filesystem::filesystem_error("no scratch folder", folder,
                                          std::error_code(error, std::generic_category()));
}

}  // namespace

ScratchFolder::ScratchFolder(const std::filesystem::path& parent)
    : path_(parent / ("lockstep-" + std::to_string(::getpid()) + "-" + fresh_token())) {}

ScratchFolder::~ScratchFolder() {
  remove();
}

// It follows no link out of the folder.
void ScratchFolder::remove() const {
  std::error_code gone;
  std::filesystem::remove_all(path_, gone);
}

void make_scratch(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  if (errno != EEXIST) fail(folder, errno);
  struct stat there {};
  if (::lstat(folder.c_str(), &there) != 0) fail(folder, errno);
  const bool is_own = S_ISDIR(there.st_mode) && there.st_uid == ::geteuid() &&
                      (there.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  if (!is_own) fail(folder, EEXIST);
}

}  // namespace lockstep

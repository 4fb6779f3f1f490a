#include "harness/process/system_limit.h"

#include <cerrno>
#include <system_error>

namespace lockstep {

namespace {

// Fewer lanes need less of everything, since each is a process with its own memory.
std::string cure_for(int error) {
  if (error == EMFILE)
    return "; raise the limit of open files (ulimit -n), or run fewer ranks at once (-j)";
  if (error == ENFILE) return "; this machine has no more open files to give (sysctl fs.file-max)";
  if (error == EAGAIN)
    return "; raise the limit of processes (ulimit -u), or run fewer ranks at once (-j)";
  if (error == ENOMEM)
    return "; raise the limit of memory (ulimit -v), or run fewer ranks at once (-j)";
  return "";
}

}  // namespace

std::string reason_of(int error) {
  return std::generic_category().message(error) + cure_for(error);
}

}  // namespace lockstep

// Why a system call failed, and the limit a user can raise where one was reached.
#pragma once

#include <string>

namespace lockstep {

// "Too many open files; raise the limit of open files (ulimit -n)". `error` is an errno.
std::string reason_of(int error);

}  // namespace lockstep

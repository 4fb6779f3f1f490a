// A working folder that was deleted.
#pragma once

namespace lockstep::cli {

// True where the program was started in a folder that no longer exists. Its working folder is then
// "/": without one LibTorch's MKL would end the program before main(), with a misleading error.
bool working_folder_is_gone();

}  // namespace lockstep::cli

#pragma once

#include <string>

namespace lockstep {

// Tells the launcher why this process fails, so that its summary says so: torchrun prints it as the
// root cause, of the rank that told first, where it would otherwise know an exit status alone.
// Writes the file that TORCHELASTIC_ERROR_FILE names, once: the first sentence stays. Without such
// a launcher nothing happens. Local; throws nothing.
//
// Lockstep itself calls it before it throws an error that ends a group: in init_process_group(),
// and where an instance tells its peers that it cannot go on. A program may call it for its own.
// Source: torch.distributed.elastic.multiprocessing.errors, ErrorHandler.record_exception.
void report_to_launcher(const std::string& sentence) noexcept;

}  // namespace lockstep

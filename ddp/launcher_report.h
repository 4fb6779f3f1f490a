#pragma once

#include <string>

namespace lockstep {

// A program's own sentence for its launcher: why this process fails. torchrun prints it as the root
// cause, and `lockstep launch` behind the rank's number, where they would otherwise know an exit
// status alone. Writes the file that TORCHELASTIC_ERROR_FILE names. The program's first sentence
// stays; it replaces what Lockstep has reported, so that one call at the end of main suffices, also
// after unwinding has destroyed a DistributedDataParallel. Without such a launcher nothing happens.
// Local; throws nothing.
// Source: torch.distributed.elastic.multiprocessing.errors, ErrorHandler.record_exception.
void report_to_launcher(const std::string& sentence) noexcept;

// Lockstep's, for programs that report nothing: before it throws an error that ends a group, in
// init_process_group(), and where an instance reports to its peers that it cannot continue. Kept
// until the program reports; the first one stays.
void report_for_the_program(const std::string& sentence) noexcept;

}  // namespace lockstep

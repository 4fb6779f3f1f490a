// The folder that a program records into, and what has it do so.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

bool has_histories(const std::filesystem::path& folder);

// The absolute path of `folder`, which holds one run; empty where that is empty. `flag` names it in
// a UsageError.
std::filesystem::path folder_of_record(const std::string& flag, const std::string& folder);

// From here on, what this process becomes or starts records into the folder that LOCKSTEP_RECORD
// names: any program of Python from the moment at which it imports PyTorch
// (recorder/python/lockstep_autostart). A program with Lockstep's recorder records without it.
void have_python_record();

}  // namespace lockstep::cli

#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

// The files of torch.save: a zip archive of a pickle and the bytes of tensors. Everything is Local.

// A value that was read, and the checksum of all of it, by which ranks see that they read one file.
struct ReadArchive {
  c10::IValue value;
  std::uint64_t checksum = 0;
};

// Reads a file of torch.save or of write_archive; tensors are on the CPU, dictionaries PickleDict.
// Throws std::runtime_error with what is wrong with the file, for any bytes, and takes time and
// memory in proportion to them.
ReadArchive read_archive(const std::string& path);

// Gives `write` the bytes of such a file, in order, with a checksum for each record. Tensors are
// dense, contiguous, on the CPU, and have storages of their own. `write` does not throw.
void write_archive(const c10::IValue& value,
                   const std::function<void(const void* bytes, std::size_t size)>& write);

}  // namespace lockstep

// The outcomes of a reader's inputs: the reader accepts an input, and then what it has read can be
// used and is written and read back the same, or it refuses with a sentence that begins with the
// place. It throws nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::readers {

// LOCKSTEP_FUZZ_INPUTS, or a few thousand.
uint64_t inputs();

// The texts of the files of that name, or in a folder of that name, below LOCKSTEP_FUZZ_FOLDER.
std::vector<std::string> given_files(const std::string& name);

class Outcomes {
 public:
  // `place` begins every refusal.
  Outcomes(std::string reader, std::string place)
      : reader_(std::move(reader)), place_(std::move(place)) {}

  // `read` throws FieldError to refuse its input.
  void add(uint64_t number, const std::function<void()>& read);

  // Prints the counts. Inputs of which hardly any is read, or refused, test nothing.
  void report() const;

 private:
  const std::string reader_, place_;
  uint64_t accepted_ = 0, refused_ = 0;
};

}  // namespace lockstep::readers

// Inputs for readers, each a pure function of its number: files that are valid but for a few
// changes, in their text or in the values that they hold, files made of known names and values at
// the edges, and noise.
#pragma once

#include "harness/history/frames.h"

#include <random>
#include <string>
#include <vector>

namespace lockstep::readers {

// The texts of valid JSON files, and what can be made of them.
class JsonInputs {
 public:
  explicit JsonInputs(std::vector<std::string> files);
  const std::vector<std::string>& files() const { return files_; }
  std::string at(uint64_t number) const;

 private:
  std::vector<std::string> files_;
  std::vector<Json> values_;
  std::vector<std::string> names_;  // of all fields
};

// The records of one rank, as bytes. Most have right commit words, so that their headers are read.
class FrameInputs {
 public:
  explicit FrameInputs(std::vector<std::string> ranks);
  std::string at(uint64_t number) const;

 private:
  std::vector<std::string> ranks_;
  std::vector<Frames> frames_;
  std::vector<std::string> names_;
};

Frames frames_in(const std::string& bytes);
std::string bytes_of(const Frames& frames);

}  // namespace lockstep::readers

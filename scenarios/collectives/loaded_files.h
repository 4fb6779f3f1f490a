// Loads of which one rank reads a file that it must refuse, and its peers a right one.
#pragma once

#include "harness/worlds/subject.h"
#include "scenarios/collectives/refused_arguments.h"

#include <functional>
#include <memory>
#include <string>

namespace lockstep::scenarios::collectives {

// Objects that a file is loaded into.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;
  virtual TrainingState state() = 0;
  virtual at::Tensor numbers() = 0;  // all that it holds
};

// The files of a case, and what they are loaded into.
struct LoadedFiles {
  using Write = std::function<void(const std::string& path, int ranks)>;
  Write right, wrong;
  std::function<std::unique_ptr<LoadTarget>()> make;
};

// Rank 0 writes both files. Each call loads one into a new target, whose numbers are recorded then,
// and throws what the subject threw, without the folder of the files, which no case knows.
Refused refused_load(const LoadedFiles& files, const std::string& reason);

// The first call of all ranks saves where a folder is, which rank 0 sees, and the next one beside
// it.
Refused refused_over_a_folder();

}  // namespace lockstep::scenarios::collectives

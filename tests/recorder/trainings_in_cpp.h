// Trainings that a recorder in C++ must not change.
#pragma once

#include "lockstep/recorder.h"

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::testing {

// Where a training runs. Where the recorder is off, `recorder` passes everything through.
struct Here {
  Recorder& recorder;
  int rank;
  std::ostringstream said;

  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return recorder.group(); }
  // One line that differs where a bit of a tensor does.
  void say(const std::string& name, const std::vector<at::Tensor>& tensors);
  void say(const std::string& name, const torch::nn::Module& module);
};

struct TrainingInCpp {
  std::string name;
  std::function<void(Here& here)> run;
  // The events that the recorder must leave out, and say so.
  std::vector<std::string> left_out = {};
};

std::vector<TrainingInCpp> trainings_of_loops();
std::vector<TrainingInCpp> trainings_of_models();
std::vector<TrainingInCpp> trainings_of_data();
std::vector<TrainingInCpp> trainings_that_end();

}  // namespace lockstep::testing

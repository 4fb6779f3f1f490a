// The parts that teach: demonstrations, the beliefs that many hold, and a course through some of
// them.
#pragma once

#include "demos/demo.h"

#include <string>
#include <vector>

namespace lockstep {

// A step of the course: a page of docs/course, whose example is one command.
struct CourseStep {
  std::string title;    // "Averaged gradients"
  std::string command;  // without the program: "demo average"
  std::string page;     // its file: "4-averaged-gradients.md"
};

struct Lessons {
  std::vector<Demo> demos;    // in the order of a course
  std::vector<Demo> beliefs;  // the demonstrations "belief-1", "belief-2", ...
  std::vector<CourseStep> course = {};
};

// All of Lockstep's own.
Lessons lessons();

}  // namespace lockstep

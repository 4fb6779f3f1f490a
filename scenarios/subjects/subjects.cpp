#include "scenarios/subjects/subjects.h"

#include "harness/world/subject.h"

namespace lockstep {

Subjects built_in_subjects() {
  return {lockstep_subject(), naive_subject()};
}

}  // namespace lockstep

#include "scenarios/subjects/subjects.h"

#include "harness/worlds/subject.h"

namespace lockstep {

Subjects built_in_subjects() {
  return {lockstep_subject(), naive_subject(), c10d_subject()};
}

}  // namespace lockstep

#include "scenarios/subjects/subjects.h"

#include "harness/worlds/subject.h"

namespace lockstep {

Subjects built_in_subjects() {
  return Subjects{lockstep_subject(), naive_subject(), c10d_subject(), pytorch_subject()}
      .with_plugin("pytorch", pytorch_plugin())
      .with_files(python_files());
}

}  // namespace lockstep

// The subjects that come with Lockstep. To add your own see examples/.
#pragma once

#include "harness/worlds/subjects.h"

namespace lockstep {

struct Subject;

Subject lockstep_subject();  // ours: the only file of the harness that sees ddp/
Subject
naive_subject();  // one all-reduce per parameter, after backward: twenty lines to check by eye
Subject c10d_subject();  // PyTorch's own reducer, driven as its Python wrapper drives it

// PyTorch's own DistributedDataParallel, of Python; needs the plugin.
Subject pytorch_subject();
SubjectPlugin pytorch_plugin();

// A user's own, of Python: "python:FILE.py".
SubjectFiles python_files();

Subjects built_in_subjects();

}  // namespace lockstep

// The judged subjects: each in a file of its own.
#pragma once

#include "lockstep/harness.h"

lockstep::Subject average_after_backward();
lockstep::Subject uneven_last_bucket();
lockstep::Subject strided_sampler();

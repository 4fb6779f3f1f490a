// The passes of samplers, in a history.
#pragma once

#include "recorder/cpp/recorder_impl.h"

namespace lockstep {

std::shared_ptr<SamplerLog> sampler_log(std::shared_ptr<RankRecording> recording, std::string name);

}  // namespace lockstep

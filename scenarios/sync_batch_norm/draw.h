// The layers and batches that SyncBatchNorm is compared on.
#pragma once

#include "scenarios/cases/layer.h"

#include <rapidcheck.h>

#include <vector>

namespace lockstep::scenarios::sync_batch_norm {

// Batches of every kind of size in worlds of two and three, every dtype, every pair of layouts.
std::vector<Layer> every_layer();

// Any, most of them small.
rc::Gen<Layer> drawn_layers();

}  // namespace lockstep::scenarios::sync_batch_norm

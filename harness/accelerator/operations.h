#pragma once

namespace lockstep::accelerator {

// Registers all operations for PrivateUse1, dense and sparse, for as long as the process lives.
// Once.
void register_operations();

}  // namespace lockstep::accelerator
